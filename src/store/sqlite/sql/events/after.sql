SELECT number, session, status, interrupt, error FROM events
WHERE number > ?1
ORDER BY number LIMIT ?2
