INSERT INTO sign_ins (token, key, ends_at) VALUES (?1, ?2, ?3)
