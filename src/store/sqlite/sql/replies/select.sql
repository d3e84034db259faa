SELECT request_digest, body, created_at FROM replies WHERE scope = ?1 AND key = ?2
