UPDATE turns SET epoch = epoch + 1, parked = 1, wake_at = ?2, worked_ms = ?3, todo = NULL
WHERE seq = ?1
