-- Numbers follow the order of storing, so no index by age is needed: the events to go are the first ones. The newest
-- stays, because the next number is counted from it.
DELETE FROM events
WHERE number < coalesce(
    (SELECT number FROM events WHERE stored_at >= ?1 ORDER BY number LIMIT 1),
    (SELECT max(number) FROM events)
)
