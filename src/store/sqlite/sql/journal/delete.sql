DELETE FROM journal WHERE turn = ?1
