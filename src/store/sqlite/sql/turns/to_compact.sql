SELECT seq FROM turns
WHERE ended_at < ?1 AND suspended_code IS NULL AND compacted = 0
ORDER BY ended_at, seq LIMIT ?2
