UPDATE hitl.outbox SET due_at = $3
WHERE due_at IS NULL AND seq = (
    SELECT seq FROM hitl.outbox WHERE status = 'pending' AND session = $1 AND url = $2 ORDER BY seq LIMIT 1
)
