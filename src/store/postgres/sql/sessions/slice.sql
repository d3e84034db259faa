-- A session with its newest turn, whose columns are the last ones, as in turns/select.
SELECT s.version, s.token,
       greatest(s.updated_at,
                (SELECT stored_at FROM hitl.events e WHERE e.session = s.id ORDER BY number DESC LIMIT 1),
                (SELECT at FROM hitl.journal j WHERE j.session = s.id AND j.turn = t.id ORDER BY idx DESC LIMIT 1)) AS latest,
       CASE WHEN pg_is_in_recovery() THEN 0
            ELSE ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint END AS promotions,
       s.seq, s.id, s.agent, s.created_at, s.updated_at, s.total_messages,
       s.status, s.turn, s.pending, s.response, s.failure_code, s.failure_message, s.rules, s.grants, s.webhook,
       s.abandoned,
       t.seq, t.id, t.session, t.message, t.webhook, t.created_at, t.impure_at, t.warnings, t.sent_by,
       t.epoch, t.recoveries, t.worked_ms, t.parked, t.wake_at, t.ended_at, t.suspended_code, t.compacted,
       coalesce((SELECT max(idx) + 1 FROM hitl.journal j WHERE j.session = s.id AND j.turn = t.id), 0) AS entries,
       t.code, t.refused_by
FROM hitl.sessions s
LEFT JOIN LATERAL (SELECT * FROM hitl.turns WHERE session = s.id ORDER BY seq DESC LIMIT 1) t ON true
WHERE s.id = $1
