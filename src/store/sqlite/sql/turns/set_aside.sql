UPDATE turns SET wake_at = NULL WHERE id = ?1
