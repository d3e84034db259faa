-- What is numbered below the oldest transaction that still runs is complete, whoever's that one is: told to the statements that
-- follow, in hitl.horizon. And whether it may be looked whose it is.
WITH runs AS (
    SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint AS oldest,
           pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS next
)
SELECT oldest, next, has_table_privilege('pg_locks', 'SELECT'), NULL::bigint,
       set_config('hitl.horizon', ((SELECT event_base FROM hitl.meta) + (oldest << 12))::text, true)
FROM runs
