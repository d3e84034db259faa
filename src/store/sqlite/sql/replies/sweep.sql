DELETE FROM replies WHERE created_at < ?1
