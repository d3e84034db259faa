-- By arrays: how many rows there are to be does not change the plan.
WITH old AS (
    SELECT id, session FROM hitl.turns
    WHERE ended_at < $1 AND suspended_code IS NULL AND NOT compacted
    ORDER BY ended_at, seq
    LIMIT $2
    FOR UPDATE SKIP LOCKED
), moved AS (
    UPDATE hitl.sessions SET version = version + 1, token = $3 WHERE id = ANY (ARRAY(SELECT session FROM old))
), journal AS (
    DELETE FROM hitl.journal
    WHERE session = ANY (ARRAY(SELECT session FROM old)) AND turn = ANY (ARRAY(SELECT id FROM old))
), compacted AS (
    UPDATE hitl.turns SET compacted = true WHERE id = ANY (ARRAY(SELECT id FROM old)) RETURNING 1
)
SELECT count(*) FROM compacted
