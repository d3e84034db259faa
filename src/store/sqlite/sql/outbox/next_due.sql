SELECT due_at FROM outbox
WHERE due_at IS NOT NULL AND origin NOT IN (SELECT value FROM json_each(?1))
  AND event IN (SELECT value FROM json_each(?2)) AND +status IN ('scheduled', 'pending', 'delivered', 'failed')
ORDER BY due_at LIMIT 1
