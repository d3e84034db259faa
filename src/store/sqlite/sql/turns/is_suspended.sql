SELECT 1 FROM turns
WHERE id = ?1 AND suspended_code IS NOT NULL AND session = ?2
