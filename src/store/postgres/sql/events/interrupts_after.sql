WHERE id IN (SELECT interrupt FROM hitl.events e WHERE e.number IN (
    SELECT number FROM hitl.events
    WHERE number > $1 AND number < current_setting('hitl.horizon')::bigint
    ORDER BY number LIMIT $2
))
