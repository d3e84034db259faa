SELECT due_at FROM outbox
WHERE due_at IS NOT NULL AND (origin IN (SELECT value FROM json_each(?1))) = ?3
  AND event IN (SELECT value FROM json_each(?2)) AND +status IN ('scheduled', 'pending', 'delivered', 'failed')
ORDER BY due_at LIMIT 1
