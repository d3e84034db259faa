WHERE ended_at IS NULL AND parked = 0 ORDER BY seq
