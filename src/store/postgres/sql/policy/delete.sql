-- Fails the whole transaction where another one is there than was seen.
WITH gone AS (
    DELETE FROM hitl.policy WHERE digest = $1::text
    RETURNING 1
)
SELECT 1 / (count(*) = ($1 IS NOT NULL)::int)::int FROM gone
