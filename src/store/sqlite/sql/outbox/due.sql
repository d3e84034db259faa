WHERE due_at <= ?1 ORDER BY due_at, seq LIMIT ?2
