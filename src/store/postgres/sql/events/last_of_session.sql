SELECT coalesce(max(number), 0) FROM hitl.events WHERE session = $1
