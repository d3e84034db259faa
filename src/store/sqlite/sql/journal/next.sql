SELECT coalesce(max(idx) + 1, 0) FROM journal WHERE turn = ?1
