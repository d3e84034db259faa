INSERT INTO journal (turn, idx, at, entry)
SELECT ?1, coalesce(max(idx) + 1, 0), ?2, ?3 FROM journal WHERE turn = ?1
RETURNING idx
