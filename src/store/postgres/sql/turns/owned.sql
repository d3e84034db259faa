-- Those of a server that it has not in memory, the first of them: they wait for a slot there, or it does not know of them.
SELECT id, epoch FROM hitl.turns
WHERE ended_at IS NULL AND NOT parked AND owner = $1 AND id <> ALL ($2::uuid[])
ORDER BY seq LIMIT 1024
