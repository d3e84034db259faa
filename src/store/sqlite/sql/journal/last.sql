SELECT at, entry, path, kind, name, location, arguments, interrupt, body
FROM journal
WHERE turn = (SELECT seq FROM turns WHERE id = ?1)
ORDER BY idx DESC
LIMIT 1
