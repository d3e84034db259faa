-- Numbers follow the order of storing, so no index by age is needed: the events to go are the first ones. The newest
-- stays, because the next number is counted from it.
WITH oldest AS MATERIALIZED (SELECT number, stored_at FROM events ORDER BY number LIMIT ?2)
DELETE FROM events
WHERE number <= (SELECT max(number) FROM oldest)
  AND number < (SELECT max(number) FROM events)
  AND number < coalesce((SELECT min(number) FROM oldest WHERE stored_at >= ?1), 9223372036854775807)
