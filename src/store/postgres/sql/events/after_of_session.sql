SELECT number, session, status, interrupt, error FROM hitl.events
WHERE session = $3 AND number > $1
ORDER BY number LIMIT $2
