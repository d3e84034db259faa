DELETE FROM hitl.replies WHERE ctid = ANY (ARRAY(
    SELECT old.ctid FROM hitl.replies old
    WHERE old.created_at < $1
    ORDER BY old.created_at, old.scope, old.key
    LIMIT $2
    FOR UPDATE SKIP LOCKED
))
RETURNING 1
