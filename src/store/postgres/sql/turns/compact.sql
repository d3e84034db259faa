WITH old AS (
    SELECT id, session FROM hitl.turns
    WHERE ended_at < $1 AND suspended_code IS NULL AND NOT compacted
    ORDER BY ended_at, seq
    LIMIT $2
    FOR UPDATE SKIP LOCKED
), moved AS (
    UPDATE hitl.sessions SET version = version + 1, token = $3 WHERE id IN (SELECT session FROM old)
), journal AS (
    DELETE FROM hitl.journal j USING old WHERE j.session = old.session AND j.turn = old.id
), compacted AS (
    UPDATE hitl.turns t SET compacted = true FROM old WHERE t.id = old.id RETURNING 1
)
SELECT count(*) FROM compacted
