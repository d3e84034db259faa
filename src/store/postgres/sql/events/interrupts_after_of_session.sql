WHERE id IN (SELECT interrupt FROM hitl.events e WHERE e.number IN (
    SELECT number FROM hitl.events
    WHERE session = $3 AND number > $1
    ORDER BY number LIMIT $2
))
