INSERT INTO journal (turn, idx, entry)
SELECT ?1, coalesce(max(idx) + 1, 0), ?2 FROM journal WHERE turn = ?1
RETURNING idx
