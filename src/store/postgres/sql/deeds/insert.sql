INSERT INTO hitl.deeds (number, at, action, session, interrupt, actor, address, details)
SELECT (SELECT event_base FROM hitl.meta) + (place - 1) % 4096
       + (CASE WHEN (place - 1) >= 4096 THEN split_part(current_setting('hitl.numbers'), ',', ((place - 1) / 4096 + 1)::int)::bigint
               ELSE pg_current_xact_id()::text::bigint END << 12),
       at, action, session, interrupt, actor, address, details
FROM unnest($1::bigint[], $2::text[], $3::uuid[], $4::uuid[], $5::text[], $6::text[], $7::text[]) WITH ORDINALITY AS n(at, action, session, interrupt, actor, address, details, place)
ORDER BY place
ON CONFLICT (interrupt, actor) WHERE action = 'seen' DO NOTHING
