INSERT INTO hitl.outbox (id, reminder, status, leased, attempts, due_at, body, session, interrupt, event, url, token, created_at,
    last_error, settled_at, origin)
SELECT id, reminder, status, leased, attempts, due_at, body, session, interrupt, event, url, token,
       created_at, last_error, settled_at, origin
FROM unnest($1::uuid[], $2::bigint[], $3::text[], $4::boolean[], $5::bigint[], $6::bigint[], $7::text[],
            $8::uuid[], $9::uuid[], $10::text[], $11::text[], $12::text[], $13::bigint[], $14::text[],
            $15::bigint[], $16::text[])
     WITH ORDINALITY AS n(id, reminder, status, leased, attempts, due_at, body, session, interrupt, event, url, token,
      created_at, last_error, settled_at, origin, place)
ORDER BY place
