DELETE FROM messages WHERE session = ?1 AND idx >= ?2
