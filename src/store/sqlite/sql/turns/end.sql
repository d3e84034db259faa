UPDATE turns SET ended_at = ?2, parked = 0, wake_at = NULL
WHERE id = ?1 AND ended_at IS NULL
