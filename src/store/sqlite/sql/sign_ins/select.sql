SELECT token, key, ends_at FROM sign_ins ORDER BY token
