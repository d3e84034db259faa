INSERT INTO journal (turn, idx, at, entry, path, kind, name, location, arguments, interrupt, body)
SELECT ?1, coalesce(max(idx) + 1, 0), ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10 FROM journal WHERE turn = ?1
RETURNING idx
