DELETE FROM hitl.outbox o
USING unnest($1::uuid[], $2::bigint[]) AS n(id, reminder)
WHERE o.id = n.id AND o.reminder = n.reminder
