INSERT INTO hitl.events (number, session, status, interrupt, error, stored_at)
SELECT (SELECT event_base FROM hitl.meta) + told % 4096
       + (CASE WHEN told >= 4096 THEN split_part(current_setting('hitl.numbers'), ',', (told / 4096 + 1)::int)::bigint
               ELSE pg_current_xact_id()::text::bigint END << 12),
       session, status, interrupt, error, stored_at
FROM unnest($1::uuid[], $2::text[], $3::uuid[], $4::text[], $5::bigint[], $6::bigint[])
     WITH ORDINALITY AS n(session, status, interrupt, error, stored_at, told, place)
ORDER BY place
RETURNING number
