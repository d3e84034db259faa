WHERE due_at <= ?1 AND origin NOT IN (SELECT value FROM json_each(?3)) ORDER BY due_at, seq LIMIT ?2
