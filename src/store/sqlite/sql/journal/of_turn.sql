SELECT entry
FROM journal
WHERE turn = (SELECT seq FROM turns WHERE id = ?1)
ORDER BY idx
