DELETE FROM outbox WHERE seq IN (
    SELECT old.seq FROM outbox AS old
    WHERE old.settled_at < ?1
    ORDER BY old.settled_at, old.seq
    LIMIT ?2
)
