-- Where another server is at work, what is leased may be its own: leases end by themselves.
WITH released AS (
    UPDATE hitl.outbox SET leased = false, due_at = $1
    WHERE status = 'pending' AND leased
      AND NOT EXISTS (SELECT FROM hitl.servers WHERE kind = 'server' AND id IS DISTINCT FROM $3)
    RETURNING session
)
UPDATE hitl.sessions SET version = version + 1, token = $2 WHERE id = ANY (ARRAY(SELECT session FROM released))
