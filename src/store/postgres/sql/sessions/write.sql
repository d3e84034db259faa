-- Fails the whole transaction unless every one is as it was read, and where the server that commits is dead (2201E).
WITH held AS (
    UPDATE hitl.sessions s
    SET agent = n.agent, created_at = n.created_at, updated_at = n.updated_at,
        total_messages = n.total_messages, status = n.status, turn = n.turn, pending = n.pending,
        response = n.response, failure_code = n.failure_code, failure_message = n.failure_message,
        rules = n.rules, grants = n.grants, webhook = n.webhook, abandoned = n.abandoned,
        version = n.version, token = n.token,
        owner = coalesce(n.owner, s.owner), settled_at = CASE WHEN n.status IN ('idle', 'error') THEN n.updated_at END
    FROM unnest($1::uuid[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::text[], $7::uuid[],
                $8::bytea[], $9::text[], $10::text[], $11::text[], $12::text[], $13::text[], $14::text[],
                $15::text[], $16::uuid[], $17::bigint[], $18::bigint[], $19::bigint[], $20::bigint[])
         AS n(id, agent, created_at, updated_at, total_messages, status, turn, pending, response, failure_code,
          failure_message, rules, grants, webhook, abandoned, owner, version, token, seen_version,
          seen_token)
    WHERE s.id = n.id AND s.version = n.seen_version AND s.token = n.seen_token
    RETURNING 1
)/* parts */
SELECT CASE WHEN $21::uuid IS NOT NULL THEN ln((SELECT count(*) FROM hitl.servers WHERE id = $21)) END,
       1 / (count(*) = cardinality($1))::int/* numbers */
FROM held
