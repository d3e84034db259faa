SELECT path, kind, name, location, arguments, interrupt
FROM journal
WHERE turn = (SELECT seq FROM turns WHERE id = ?1) AND entry = 'ask' AND interrupt = ?2
ORDER BY idx DESC
LIMIT 1
