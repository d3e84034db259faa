UPDATE turns SET epoch = epoch + 1, parked = 0, wake_at = NULL, ended_at = ?2, suspended_code = ?3, todo = NULL
WHERE id = ?1 AND ended_at IS NULL
