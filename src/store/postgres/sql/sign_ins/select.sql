SELECT token, key, ends_at FROM hitl.sign_ins ORDER BY token
