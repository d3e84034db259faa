SELECT 1 FROM audit
WHERE interrupt = ?1 AND action = 'seen' AND +actor = ?2
