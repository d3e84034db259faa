SELECT at, entry, path, kind, name, location, arguments, interrupt, body
FROM hitl.journal
WHERE session = (SELECT session FROM hitl.turns WHERE id = $1) AND turn = $1 AND idx >= $2
ORDER BY idx LIMIT $3
