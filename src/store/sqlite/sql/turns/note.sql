UPDATE turns SET impure_at = ?2, warnings = ?3 WHERE id = ?1
