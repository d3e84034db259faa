SELECT EXISTS (SELECT 1 FROM outbox WHERE status = 'pending' AND session = ?1 AND url = ?2)
