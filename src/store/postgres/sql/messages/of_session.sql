SELECT message FROM hitl.messages WHERE session = $1 ORDER BY idx
