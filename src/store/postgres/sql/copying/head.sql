-- Numbers of events are those of transactions: none of a later one is smaller than the next one's first.
SELECT id, event_base + (pg_snapshot_xmax(pg_current_snapshot())::text::bigint << 12), events_swept,
       (SELECT CASE WHEN is_called THEN last_value ELSE last_value - 1 END FROM hitl.sessions_seq_seq)
FROM hitl.meta
