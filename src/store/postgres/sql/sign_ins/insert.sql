INSERT INTO hitl.sign_ins (token, key, ends_at)
SELECT token, key, ends_at
FROM unnest($1::bytea[], $2::bytea[], $3::bigint[])
     WITH ORDINALITY AS n(token, key, ends_at, place)
ORDER BY place
