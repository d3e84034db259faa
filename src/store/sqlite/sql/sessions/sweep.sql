DELETE FROM sessions
WHERE status IN ('idle', 'error') AND updated_at < ?1
RETURNING seq, id
