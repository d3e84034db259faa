SELECT at, entry
FROM journal
WHERE turn = (SELECT seq FROM turns WHERE id = ?1) AND idx > ?2
ORDER BY idx
