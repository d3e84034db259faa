SELECT min(wake_at) FROM turns WHERE wake_at IS NOT NULL
