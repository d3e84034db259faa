WHERE id IN (SELECT interrupt FROM hitl.events e WHERE e.number IN (
    SELECT number FROM hitl.events
    WHERE number > $1 AND number < (SELECT event_base FROM hitl.meta) + (pg_snapshot_xmin(pg_current_snapshot())::text::bigint << 12)
    ORDER BY number LIMIT $2
))
