UPDATE turns SET epoch = epoch + 1, parked = 0, wake_at = NULL, todo = 0
WHERE id = ?1 AND ended_at IS NULL
RETURNING epoch
