DELETE FROM hitl.outbox WHERE (id, reminder) IN (
    SELECT old.id, old.reminder FROM hitl.outbox old
    WHERE old.settled_at < $1
    ORDER BY old.settled_at, old.seq
    LIMIT $2
    FOR UPDATE SKIP LOCKED
)
