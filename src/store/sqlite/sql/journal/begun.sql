SELECT path, kind, name, location, arguments, interrupt
FROM journal
WHERE turn = (SELECT seq FROM turns WHERE id = ?1) AND entry = 'intent' AND path = ?2
ORDER BY idx DESC
LIMIT 1
