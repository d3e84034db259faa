-- Fails the whole transaction where one does not stand where it was seen: notices outlive the session whose row is compared.
WITH gone AS (
    DELETE FROM hitl.outbox o
    USING unnest($1::uuid[], $2::bigint[], $3::text[], $4::boolean[], $5::bigint[], $6::bigint[])
          AS n(id, reminder, status, leased, attempts, due_at)
    WHERE o.id = n.id AND o.reminder = n.reminder AND o.status = n.status AND o.leased = n.leased
      AND o.attempts = n.attempts AND o.due_at IS NOT DISTINCT FROM n.due_at
    RETURNING 1
)
SELECT 1 / (count(*) = cardinality($1))::int FROM gone
