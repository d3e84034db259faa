SELECT j.event, j.session, j.turn, j.at, j.entry, j.path, j.kind, j.name, j.location, j.arguments, j.interrupt, j.body
FROM hitl.journal j
WHERE j.session = $3 AND j.event > $1 AND j.event > (SELECT events_swept FROM hitl.meta)
ORDER BY j.event LIMIT $2
