-- The first of them, of one agent. By a subquery: however many sessions there are, few are looked at.
SELECT id, epoch FROM hitl.turns
WHERE ended_at IS NULL AND NOT parked AND NOT EXISTS (SELECT FROM hitl.servers WHERE servers.id = turns.owner)
  AND (SELECT agent FROM hitl.sessions WHERE sessions.id = turns.session) = $1
ORDER BY seq LIMIT 1024
