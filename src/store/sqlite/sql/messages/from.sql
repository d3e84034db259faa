SELECT message FROM messages WHERE session = ?1 AND idx >= ?2 ORDER BY idx
