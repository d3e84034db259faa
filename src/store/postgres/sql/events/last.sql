SELECT greatest(
    (SELECT coalesce(max(number), 0) FROM hitl.events
     WHERE number < current_setting('hitl.horizon')::bigint),
    (SELECT coalesce(max(event), 0) FROM hitl.journal
     WHERE event < current_setting('hitl.horizon')::bigint))
