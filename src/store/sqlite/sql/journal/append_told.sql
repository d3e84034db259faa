INSERT INTO journal (turn, idx, at, entry, path, kind, name, location, arguments, interrupt, body, event)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, 1 + max(
    (SELECT coalesce(max(number), 0) FROM events),
    (SELECT coalesce(max(event), 0) FROM journal WHERE event IS NOT NULL),
    (SELECT number FROM last_told)))
