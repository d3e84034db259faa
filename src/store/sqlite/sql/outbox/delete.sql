DELETE FROM outbox WHERE id = ?1 AND reminder = ?2
