SELECT max(
    (SELECT coalesce(max(number), 0) FROM events),
    (SELECT coalesce(max(event), 0) FROM journal WHERE event IS NOT NULL),
    (SELECT number FROM last_told))
