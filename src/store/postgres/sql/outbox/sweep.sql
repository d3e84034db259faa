-- By arrays: how many rows there are to be does not change the plan.
DELETE FROM hitl.outbox WHERE ctid = ANY (ARRAY(
    SELECT old.ctid FROM hitl.outbox old
    WHERE old.settled_at < $1
    ORDER BY old.settled_at, old.seq
    LIMIT $2
    FOR UPDATE SKIP LOCKED
))
RETURNING 1
