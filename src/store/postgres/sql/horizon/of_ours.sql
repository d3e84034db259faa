-- The same, but for transactions that are none of ours. A transaction is given its number by the first thing that it writes, and has
-- the lock of the table by then, until after it is over: one that ran before it was looked at the locks and runs after that, and has
-- no lock here that lets it write, writes nothing here with that number. In this order: the snapshot, the locks, and whether it runs.
-- And whether there are such; and the process of the oldest of the others.
WITH holders AS MATERIALIZED (
    SELECT min(pid) AS pid,
           array_agg(transactionid::text::bigint) FILTER (WHERE locktype = 'transactionid' AND mode = 'ExclusiveLock') AS numbers,
           coalesce(bool_or(mode <> 'AccessShareLock' AND locktype = 'relation'
               AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
               AND relation IN (SELECT oid FROM pg_class WHERE relnamespace = 'hitl'::regnamespace)), false) AS is_ours
    FROM pg_locks GROUP BY virtualtransaction
), running AS MATERIALIZED (
    -- A lock has 32 bits of the number's 64. There is none of a transaction that has just begun, or is just over.
    SELECT number, pid, coalesce(is_ours, true) AS is_ours
    FROM pg_snapshot_xip(pg_current_snapshot()) AS number
    LEFT JOIN (SELECT unnest(numbers) AS low, pid, is_ours FROM holders) h ON low = number::text::bigint % 4294967296
), ours AS MATERIALIZED (
    SELECT number::text::bigint AS number, pid FROM running
    WHERE is_ours OR pg_xact_status(number) IS DISTINCT FROM 'in progress'
), runs AS MATERIALIZED (
    -- A standby lists none that runs.
    SELECT CASE WHEN EXISTS (SELECT FROM running) THEN coalesce((SELECT min(number) FROM ours), pg_snapshot_xmax(pg_current_snapshot())::text::bigint)
                ELSE pg_snapshot_xmin(pg_current_snapshot())::text::bigint END AS oldest,
           pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS next
)
SELECT oldest, next, oldest > pg_snapshot_xmin(pg_current_snapshot())::text::bigint, (SELECT min(pid)::bigint FROM ours WHERE number = oldest),
       set_config('hitl.horizon', ((SELECT event_base FROM hitl.meta) + (oldest << 12))::text, true)
FROM runs
