SELECT version, token,
       greatest(updated_at,
                (SELECT stored_at FROM hitl.events e WHERE e.session = sessions.id ORDER BY number DESC LIMIT 1),
                (SELECT at FROM hitl.journal j
                 WHERE j.session = sessions.id
                   AND j.turn = (SELECT t.id FROM hitl.turns t WHERE t.session = sessions.id ORDER BY t.seq DESC LIMIT 1)
                 ORDER BY idx DESC LIMIT 1)) AS latest,
       CASE WHEN pg_is_in_recovery() THEN 0
            ELSE ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint END AS promotions,
       seq, id, agent, created_at, updated_at, total_messages,
       status, turn, pending, response, failure_code, failure_message, rules, grants, webhook,
       abandoned
FROM hitl.sessions
WHERE id = $1
