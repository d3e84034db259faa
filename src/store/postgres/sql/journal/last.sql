SELECT at, entry, path, kind, name, location, arguments, interrupt, body
FROM hitl.journal
WHERE session = (SELECT session FROM hitl.turns WHERE id = $1) AND turn = $1
ORDER BY idx DESC LIMIT 1
