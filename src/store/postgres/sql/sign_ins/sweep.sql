DELETE FROM hitl.sign_ins WHERE ctid = ANY (ARRAY(
    SELECT old.ctid FROM hitl.sign_ins old
    WHERE old.ends_at <= $1
    ORDER BY old.ends_at, old.token
    LIMIT $2
    FOR UPDATE SKIP LOCKED
))
RETURNING 1
