SELECT message
FROM messages
WHERE session = (SELECT seq FROM sessions WHERE id = ?1) AND idx >= ?2
ORDER BY idx
LIMIT ?3
