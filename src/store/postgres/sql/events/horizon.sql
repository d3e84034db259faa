-- What still runs, and whether anything was committed that has to wait for it.
SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint, pg_snapshot_xmax(pg_current_snapshot())::text::bigint,
       EXISTS (SELECT 1 FROM hitl.events
               WHERE number >= (SELECT event_base FROM hitl.meta) + (pg_snapshot_xmin(pg_current_snapshot())::text::bigint << 12))
       OR EXISTS (SELECT 1 FROM hitl.journal
                  WHERE event >= (SELECT event_base FROM hitl.meta) + (pg_snapshot_xmin(pg_current_snapshot())::text::bigint << 12))
