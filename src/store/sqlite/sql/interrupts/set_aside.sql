UPDATE interrupts SET due_at = NULL WHERE id = ?1
