INSERT INTO hitl.journal (session, turn, idx, at, entry, path, kind, name, location, arguments, interrupt, body, event)
SELECT session, turn, idx, at, entry, path, kind, name, location, arguments, interrupt, body,
       (SELECT event_base FROM hitl.meta) + told % 4096
       + (CASE WHEN told >= 4096 THEN split_part(current_setting('hitl.numbers'), ',', (told / 4096 + 1)::int)::bigint
               ELSE pg_current_xact_id()::text::bigint END << 12)
FROM unnest($1::uuid[], $2::uuid[], $3::bigint[], $4::bigint[], $5::text[], $6::text[], $7::text[],
            $8::text[], $9::text[], $10::text[], $11::uuid[], $12::text[], $13::bigint[])
     WITH ORDINALITY AS n(session, turn, idx, at, entry, path, kind, name, location, arguments, interrupt, body, told, place)
ORDER BY place
