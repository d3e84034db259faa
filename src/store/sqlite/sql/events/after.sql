SELECT number, session, name, data FROM events
WHERE number > ?1
ORDER BY number LIMIT ?2
