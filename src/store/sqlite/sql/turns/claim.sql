UPDATE turns SET epoch = epoch + 1
WHERE id = ?1 AND ended_at IS NULL
RETURNING epoch
