INSERT INTO hitl.events (number, session, status, interrupt, error, stored_at)
SELECT (SELECT event_base FROM hitl.meta) + (pg_current_xact_id()::text::bigint << 12) + told,
       session, status, interrupt, error, stored_at
FROM unnest($1::uuid[], $2::text[], $3::uuid[], $4::text[], $5::bigint[], $6::bigint[])
     WITH ORDINALITY AS n(session, status, interrupt, error, stored_at, told, place)
ORDER BY place
RETURNING number
