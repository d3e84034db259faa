-- What still runs, and whether anything was committed that has to wait for it.
SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint, pg_snapshot_xmax(pg_current_snapshot())::text::bigint,
       -- the last one, and not whether there is any, for which all would be looked at
       coalesce(greatest((SELECT max(number) FROM hitl.events), (SELECT max(event) FROM hitl.journal))
                >= (SELECT event_base FROM hitl.meta) + (pg_snapshot_xmin(pg_current_snapshot())::text::bigint << 12), false)
