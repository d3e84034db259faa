-- The row was there for its number.
DELETE FROM hitl.replies WHERE scope = 'numbers' AND key = $1
