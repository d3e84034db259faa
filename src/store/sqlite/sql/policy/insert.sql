INSERT INTO policy (text, digest, pushed_at, pushed_by) VALUES (?1, ?2, ?3, ?4)
