DELETE FROM outbox WHERE settled_at < ?1
