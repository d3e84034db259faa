SELECT id FROM turns INDEXED BY turns_suspended
WHERE suspended_code IS NOT NULL AND suspended_code <> ?1
ORDER BY seq LIMIT ?2
