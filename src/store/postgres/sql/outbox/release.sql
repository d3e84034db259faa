WITH released AS (
    UPDATE hitl.outbox SET leased = false, due_at = $1 WHERE status = 'pending' AND leased RETURNING session
)
UPDATE hitl.sessions SET version = version + 1, token = $2 WHERE id = ANY (ARRAY(SELECT session FROM released))
