SELECT message
FROM messages
WHERE session = (SELECT seq FROM sessions WHERE id = ?1)
ORDER BY idx
