-- Nobody could be told of an expiry while the turn is suspended.
UPDATE interrupts SET due_at = NULL
WHERE turn = ?1 AND due_at IS NOT NULL AND session = (SELECT session FROM turns WHERE id = ?1)
