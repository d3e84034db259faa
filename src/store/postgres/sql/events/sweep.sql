-- Numbers follow the order of storing, so the events to go are the first ones. The newest that everybody may have seen
-- stays, because it is told up to where the events are complete.
WITH oldest AS MATERIALIZED (
    SELECT number, stored_at FROM hitl.events ORDER BY number LIMIT $2
), gone AS (
    DELETE FROM hitl.events
    WHERE number <= (SELECT max(number) FROM oldest)
      AND number < (SELECT max(number) FROM hitl.events
                    WHERE number < (SELECT event_base FROM hitl.meta) + (pg_snapshot_xmin(pg_current_snapshot())::text::bigint << 12))
      AND number < coalesce((SELECT min(number) FROM oldest WHERE stored_at >= $1), 9223372036854775807)
    RETURNING number
), noted AS (
    UPDATE hitl.meta
    SET events_swept = greatest(events_swept, (SELECT min(number) FROM hitl.events WHERE number > (SELECT max(number) FROM gone)))
    WHERE EXISTS (SELECT FROM gone)
)
SELECT 1 FROM gone
