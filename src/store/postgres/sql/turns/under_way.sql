SELECT id FROM hitl.turns WHERE ended_at IS NULL AND NOT parked ORDER BY seq
