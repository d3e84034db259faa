SELECT entries, digest
FROM carried_turns
WHERE turn = ?1
