WITH revoked AS (
    UPDATE hitl.keys k SET revoked_at = n.revoked_at
    FROM unnest($1::uuid[], $2::bigint[]) AS n(id, revoked_at)
    WHERE k.id = n.id AND k.revoked_at IS NULL
    RETURNING 1
)
SELECT 1 / (count(*) = cardinality($1))::int FROM revoked
