-- By arrays: how many rows there are to be does not change the plan.
WITH old AS (
    SELECT s.id FROM hitl.sessions s
    WHERE s.settled_at < $1
      AND NOT EXISTS (SELECT 1 FROM hitl.turns t WHERE t.session = s.id AND t.suspended_code IS NOT NULL)
    ORDER BY s.settled_at, s.seq
    LIMIT $2
    FOR UPDATE OF s SKIP LOCKED
), gone AS (
    DELETE FROM hitl.sessions WHERE id = ANY (ARRAY(SELECT id FROM old)) RETURNING id, seq
), messages AS (
    DELETE FROM hitl.messages WHERE session = ANY (ARRAY(SELECT id FROM gone))
), turns AS (
    DELETE FROM hitl.turns WHERE session = ANY (ARRAY(SELECT id FROM gone))
), journal AS (
    DELETE FROM hitl.journal WHERE session = ANY (ARRAY(SELECT id FROM gone))
), interrupts AS (
    DELETE FROM hitl.interrupts WHERE session = ANY (ARRAY(SELECT id FROM gone))
), told AS (
    INSERT INTO hitl.deeds (number, at, action, session, interrupt, actor, address, details)
    SELECT (SELECT event_base FROM hitl.meta) + (pg_current_xact_id()::text::bigint << 12) + row_number() OVER (ORDER BY gone.seq) - 1,
           $3, $4, gone.id, $5, $6, $7, $8
    FROM gone
)
SELECT id FROM gone ORDER BY seq
