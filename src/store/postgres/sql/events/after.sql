SELECT number, session, status, interrupt, error FROM hitl.events
WHERE number > $1 AND number < current_setting('hitl.horizon')::bigint
ORDER BY number LIMIT $2
