SELECT number, at, action, session, interrupt, actor, address, details
FROM hitl.deeds
WHERE number > (SELECT coalesce(max(number), 0) FROM hitl.audit_chain)
  AND number < (SELECT event_base FROM hitl.meta) + (pg_snapshot_xmin(pg_current_snapshot())::text::bigint << 12)
ORDER BY number LIMIT $1
