INSERT INTO hitl.replies (scope, key, request_digest, body, created_at)
SELECT scope, key, request_digest, body, created_at
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[])
     WITH ORDINALITY AS n(scope, key, request_digest, body, created_at, place)
ORDER BY place
ON CONFLICT (scope, key) DO UPDATE
SET request_digest = excluded.request_digest, body = excluded.body, created_at = excluded.created_at
