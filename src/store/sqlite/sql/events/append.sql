-- As values, which need no table in between; from a SELECT of the table that is added to they would.
INSERT INTO events (number, session, status, interrupt, error, stored_at)
VALUES (1 + max(
    (SELECT coalesce(max(number), 0) FROM events),
    (SELECT coalesce(max(event), 0) FROM journal WHERE event IS NOT NULL),
    (SELECT number FROM last_told)), ?1, ?2, ?3, ?4, ?5)
