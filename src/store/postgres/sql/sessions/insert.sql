INSERT INTO hitl.sessions (id, agent, created_at, updated_at, total_messages, status, turn, pending, response, failure_code,
    failure_message, rules, grants, webhook, abandoned, owner, version, token, settled_at)
SELECT id, agent, created_at, updated_at, total_messages, status, turn, pending, response, failure_code,
       failure_message, rules, grants, webhook, abandoned, owner, version, token,
       CASE WHEN status IN ('idle', 'error') THEN updated_at END
FROM unnest($1::uuid[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::text[], $7::uuid[],
            $8::bytea[], $9::text[], $10::text[], $11::text[], $12::text[], $13::text[], $14::text[],
            $15::text[], $16::uuid[], $17::bigint[], $18::bigint[])
     WITH ORDINALITY AS n(id, agent, created_at, updated_at, total_messages, status, turn, pending, response, failure_code,
      failure_message, rules, grants, webhook, abandoned, owner, version, token, place)
ORDER BY place
