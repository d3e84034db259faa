SELECT (SELECT NOT at_home FROM hitl.whereabouts),
       (SELECT count(*) FROM hitl.outbox WHERE status = 'pending'),
       (SELECT created_at FROM hitl.outbox WHERE status = 'pending' ORDER BY seq LIMIT 1),
       (SELECT count(*) FROM hitl.turns WHERE ended_at IS NULL AND NOT parked),
       (SELECT count(*) FROM hitl.sessions WHERE status = 'interrupted')
