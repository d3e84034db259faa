WHERE due_at <= ?1 AND (origin IN (SELECT value FROM json_each(?3))) = ?5
  AND event IN (SELECT value FROM json_each(?4)) AND +status IN ('scheduled', 'pending', 'delivered', 'failed')
ORDER BY due_at, seq LIMIT ?2
