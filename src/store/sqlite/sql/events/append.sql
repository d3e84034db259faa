INSERT INTO events (number, session, status, interrupt, error, stored_at)
SELECT 1 + max(
    (SELECT coalesce(max(number), 0) FROM events),
    (SELECT coalesce(max(event), 0) FROM journal WHERE event IS NOT NULL),
    (SELECT number FROM last_told)), ?1, ?2, ?3, ?4, ?5
