SELECT message FROM messages WHERE session = ?1 ORDER BY idx
