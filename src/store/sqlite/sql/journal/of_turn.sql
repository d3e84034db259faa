SELECT at, entry, path, kind, name, location, arguments, interrupt, body
FROM journal
WHERE turn = (SELECT seq FROM turns WHERE id = ?1) AND idx > ?2
ORDER BY idx
