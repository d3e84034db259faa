-- The first of them, of one agent.
SELECT t.id, t.epoch FROM hitl.turns t JOIN hitl.sessions s ON s.id = t.session
WHERE t.ended_at IS NULL AND NOT t.parked AND s.agent = $1
  AND NOT EXISTS (SELECT FROM hitl.servers WHERE servers.id = t.owner)
ORDER BY t.seq LIMIT 1024
