-- 1 at least, because 0 means an open turn.
UPDATE turns SET ended_at = ?2, parked = 0, wake_at = NULL, todo = max(?2, 1)
WHERE id = ?1 AND ended_at IS NULL
