DELETE FROM sessions INDEXED BY sessions_settled
WHERE status IN ('idle', 'error') AND updated_at < ?1
  AND NOT EXISTS (SELECT 1 FROM turns WHERE turns.session = sessions.seq AND turns.suspended_code IS NOT NULL)
RETURNING seq, id
