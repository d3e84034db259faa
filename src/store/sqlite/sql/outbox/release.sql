UPDATE outbox SET leased = 0, due_at = ?1 WHERE status = 'pending' AND leased = 1
