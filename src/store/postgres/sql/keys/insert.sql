INSERT INTO hitl.keys (id, name, scopes, key_groups, digest, created_at, created_by, revoked_at)
SELECT id, name, scopes, key_groups, digest, created_at, created_by, revoked_at
FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::bytea[], $6::bigint[], $7::text[],
            $8::bigint[])
     WITH ORDINALITY AS n(id, name, scopes, key_groups, digest, created_at, created_by, revoked_at, place)
ORDER BY place
