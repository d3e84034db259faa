SELECT path, kind, name, location, arguments, interrupt
FROM hitl.journal
WHERE session = (SELECT session FROM hitl.turns WHERE id = $1) AND turn = $1 AND entry = 'ask' AND interrupt = $2
ORDER BY idx DESC LIMIT 1
