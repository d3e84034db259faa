INSERT INTO replies (scope, key, request_digest, body, created_at)
VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (scope, key) DO UPDATE
SET request_digest = excluded.request_digest, body = excluded.body, created_at = excluded.created_at
