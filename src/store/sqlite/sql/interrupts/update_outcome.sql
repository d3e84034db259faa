UPDATE interrupts
SET status = ?2, value = ?3, resolved_by = ?4, resolved_at = ?5, due_at = ?6,
    claimed_by = ?7, claimed_until = ?8, snoozed_by = ?9, snoozed_until = ?10, rule = ?11
WHERE id = ?1
