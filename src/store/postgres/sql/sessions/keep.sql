-- Fails the whole transaction unless every one is as it was read, and where the server that commits is dead (2201E).
WITH held AS (
    UPDATE hitl.sessions s
    SET version = n.version, token = n.token, owner = coalesce(n.owner, s.owner)
    FROM unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::uuid[], $5::bigint[], $6::bigint[]) AS n(id, version, token, owner, seen_version, seen_token)
    WHERE s.id = n.id AND s.version = n.seen_version AND s.token = n.seen_token
    RETURNING 1
)/* parts */
SELECT CASE WHEN $7::uuid IS NOT NULL THEN ln((SELECT count(*) FROM hitl.servers WHERE id = $7)) END,
       1 / (count(*) = cardinality($1))::int/* numbers */
FROM held
