-- Those whose owner is gone, or that were let go of. However many are parked, they cost nothing.
SELECT id, epoch FROM hitl.turns
WHERE ended_at IS NULL AND NOT parked AND NOT EXISTS (SELECT FROM hitl.servers WHERE servers.id = turns.owner)
ORDER BY seq
