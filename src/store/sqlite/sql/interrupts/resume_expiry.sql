UPDATE interrupts SET due_at = expires_at
WHERE turn = ?1 AND status = 'pending' AND session = (SELECT session FROM turns WHERE id = ?1)
