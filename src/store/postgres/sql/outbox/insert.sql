INSERT INTO hitl.outbox (id, reminder, session, interrupt, event, url, token, body, status, created_at, due_at, leased, attempts,
    last_error, settled_at, origin)
SELECT id, reminder, session, interrupt, event, url, token, body, status, created_at, due_at, leased,
       attempts, last_error, settled_at, origin
FROM unnest($1::uuid[], $2::bigint[], $3::uuid[], $4::uuid[], $5::text[], $6::text[], $7::text[], $8::text[],
            $9::text[], $10::bigint[], $11::bigint[], $12::boolean[], $13::bigint[], $14::text[],
            $15::bigint[], $16::text[])
     WITH ORDINALITY AS n(id, reminder, session, interrupt, event, url, token, body, status, created_at, due_at, leased,
      attempts, last_error, settled_at, origin, place)
ORDER BY place
