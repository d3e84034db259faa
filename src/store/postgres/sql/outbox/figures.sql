SELECT (SELECT count(*) FROM hitl.outbox WHERE status = 'pending'),
       (SELECT created_at FROM hitl.outbox WHERE status = 'pending' ORDER BY seq LIMIT 1),
       (SELECT NOT at_home FROM hitl.whereabouts)
