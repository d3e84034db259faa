-- The newest event stays, because the next number is counted from it.
DELETE FROM events
WHERE stored_at < ?1 AND number < (SELECT max(number) FROM events)
