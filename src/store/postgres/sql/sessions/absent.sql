-- Fails the whole transaction where one is there that was not.
SELECT 1 / (count(*) = 0)::int FROM hitl.sessions WHERE id = ANY ($1::uuid[])
