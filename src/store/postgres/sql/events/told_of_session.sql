SELECT j.event, j.session, j.turn, j.at, j.entry, j.path, j.kind, j.name, j.location, j.arguments, j.interrupt, j.body
FROM hitl.journal j
WHERE j.session = $3 AND j.event > $1 AND j.event > (SELECT coalesce(min(number), 0) FROM hitl.events)
ORDER BY j.event LIMIT $2
