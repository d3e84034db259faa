UPDATE turns SET ended_at = NULL, suspended_code = NULL, recoveries = 0, todo = 0
WHERE id = ?1 AND suspended_code IS NOT NULL
