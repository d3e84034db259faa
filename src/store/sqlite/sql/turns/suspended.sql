SELECT id FROM turns INDEXED BY turns_suspended
WHERE suspended_code IS NOT NULL AND ended_at < ?1
ORDER BY ended_at, seq LIMIT ?2 OFFSET ?3
