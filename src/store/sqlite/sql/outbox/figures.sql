SELECT (SELECT count(*) FROM outbox WHERE status = 'pending'),
       (SELECT created_at FROM outbox WHERE status = 'pending' ORDER BY seq LIMIT 1)
