UPDATE interrupts
SET status = ?2, value = ?3, resolved_by = ?4, resolved_at = ?5, due_at = ?6
WHERE id = ?1
