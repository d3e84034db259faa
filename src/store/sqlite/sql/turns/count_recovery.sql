UPDATE turns SET recoveries = recoveries + 1
WHERE id = ?1 AND ended_at IS NULL
RETURNING recoveries
