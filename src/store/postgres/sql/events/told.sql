-- What was swept of the events is swept of these.
SELECT j.event, j.session, j.turn, j.at, j.entry, j.path, j.kind, j.name, j.location, j.arguments, j.interrupt, j.body
FROM hitl.journal j
WHERE j.event > $1 AND j.event > (SELECT events_swept FROM hitl.meta)
  AND j.event < current_setting('hitl.horizon')::bigint
ORDER BY j.event LIMIT $2
