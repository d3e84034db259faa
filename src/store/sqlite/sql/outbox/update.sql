UPDATE outbox
SET session = ?3, interrupt = ?4, event = ?5, url = ?6, token = ?7, body = ?8, status = ?9, created_at = ?10,
    due_at = ?11, leased = ?12, attempts = ?13, last_error = ?14, settled_at = ?15, origin = ?16
WHERE id = ?1 AND reminder = ?2
