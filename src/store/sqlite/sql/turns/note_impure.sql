UPDATE turns SET impure_at = ?2 WHERE id = ?1 AND impure_at IS NULL
