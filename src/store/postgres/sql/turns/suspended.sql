SELECT id FROM hitl.turns
WHERE suspended_code IS NOT NULL AND ended_at < $1
ORDER BY ended_at, seq LIMIT $2 OFFSET $3
