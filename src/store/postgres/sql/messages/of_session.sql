SELECT message
FROM hitl.messages
WHERE session = $1 AND idx >= $2
ORDER BY idx
LIMIT $3
