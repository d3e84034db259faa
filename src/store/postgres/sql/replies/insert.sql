-- Fails the whole transaction where there is one already: what it answered is the answer.
INSERT INTO hitl.replies (scope, key, request_digest, body, created_at)
SELECT scope, key, request_digest, body, created_at
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[])
     WITH ORDINALITY AS n(scope, key, request_digest, body, created_at, place)
ORDER BY place
