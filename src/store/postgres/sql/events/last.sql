SELECT greatest(
    (SELECT coalesce(max(number), 0) FROM hitl.events
     WHERE number < (SELECT event_base FROM hitl.meta) + (pg_snapshot_xmin(pg_current_snapshot())::text::bigint << 12)),
    (SELECT coalesce(max(event), 0) FROM hitl.journal
     WHERE event < (SELECT event_base FROM hitl.meta) + (pg_snapshot_xmin(pg_current_snapshot())::text::bigint << 12)))
