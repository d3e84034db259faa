SELECT wake_at, id FROM turns
WHERE wake_at <= ?1
ORDER BY wake_at, seq LIMIT ?2
