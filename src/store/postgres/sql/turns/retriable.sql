SELECT id FROM hitl.turns
WHERE suspended_code IS NOT NULL AND suspended_code <> $1
ORDER BY seq LIMIT $2
