UPDATE turns SET compacted = 1 WHERE seq = ?1
