SELECT request_digest, body, created_at FROM hitl.replies WHERE scope = $1 AND key = $2
