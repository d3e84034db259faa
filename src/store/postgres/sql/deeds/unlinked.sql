SELECT number, at, action, session, interrupt, actor, address, details
FROM hitl.deeds
WHERE number > (SELECT coalesce(max(number), 0) FROM hitl.audit_chain)
  AND number < current_setting('hitl.horizon')::bigint
ORDER BY number LIMIT $1
