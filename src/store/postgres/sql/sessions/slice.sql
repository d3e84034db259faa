-- A row for a session with its newest turn, whose columns are as in turns/select, and one for each of its pending interrupts,
-- whose columns are the last ones, as in interrupts/select: each has NULL for those of the other. The first is there without the
-- session too, for the number of the newest event.
SELECT coalesce(e.number, 0) AS last_event, s.version, s.token,
       greatest(s.updated_at, e.stored_at,
                (SELECT at FROM hitl.journal j WHERE j.session = s.id AND j.turn = t.id ORDER BY idx DESC LIMIT 1)) AS latest,
       CASE WHEN pg_is_in_recovery() THEN 0
            ELSE ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint END AS promotions,
       s.seq, s.id, s.agent, s.created_at, s.updated_at, s.total_messages,
       s.status, s.turn, s.pending, s.response, s.failure_code, s.failure_message, s.rules, s.grants, s.webhook,
       s.abandoned,
       t.seq, t.id, t.session, t.message, t.webhook, t.created_at, t.impure_at, t.warnings, t.sent_by,
       t.epoch, t.recoveries, t.worked_ms, t.claimed, t.parked, t.wake_at, t.ended_at, t.suspended_code, t.compacted,
       coalesce((SELECT max(idx) + 1 FROM hitl.journal j WHERE j.session = s.id AND j.turn = t.id), 0) AS entries,
       t.code, t.refused_by,
       NULL AS seq, NULL AS id, NULL AS session, NULL AS turn, NULL AS type, NULL AS payload, NULL AS status,
       NULL AS message, NULL AS built_in_schema, NULL AS response_schema, NULL AS allowed_decisions, NULL AS tool_call_id,
       NULL AS agent, NULL AS rule, NULL AS args_digest, NULL AS created_at, NULL AS expires_at, NULL AS value,
       NULL AS resolved_by, NULL AS resolved_at, NULL AS metadata, NULL AS tool_source, NULL AS args_schema,
       NULL AS claimed_by, NULL AS claimed_until, NULL AS snoozed_by, NULL AS snoozed_until, NULL AS sent_by,
       NULL AS approvers, NULL AS rule_failed, NULL AS lets_run, NULL AS hidden, NULL AS tool_approvers
FROM (SELECT $1::uuid AS id) asked
LEFT JOIN hitl.sessions s ON s.id = asked.id
LEFT JOIN LATERAL (SELECT number, stored_at FROM hitl.events WHERE session = asked.id ORDER BY number DESC LIMIT 1) e ON true
LEFT JOIN LATERAL (SELECT * FROM hitl.turns WHERE session = s.id ORDER BY seq DESC LIMIT 1) t ON true
UNION ALL
SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
       NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
       NULL, NULL, NULL, NULL, NULL, NULL,
       seq, id, session, turn, type, payload, status, message, built_in_schema, response_schema, allowed_decisions,
       tool_call_id, agent, rule, args_digest, created_at, expires_at, value, resolved_by, resolved_at, metadata,
       tool_source, args_schema, claimed_by, claimed_until, snoozed_by, snoozed_until, sent_by, approvers, rule_failed,
       lets_run, hidden, tool_approvers
FROM hitl.interrupts
WHERE session = $1 AND status = 'pending'
