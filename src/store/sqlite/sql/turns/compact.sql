UPDATE turns SET todo = NULL WHERE seq = ?1
