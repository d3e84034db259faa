DELETE FROM sessions INDEXED BY sessions_settled
WHERE status IN ('idle', 'error') AND updated_at < ?1
RETURNING seq, id
