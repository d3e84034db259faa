DELETE FROM hitl.messages m
USING unnest($1::uuid[], $2::bigint[]) AS n(session, first)
WHERE m.session = n.session AND m.idx >= n.first
