SELECT id, (SELECT sessions.id FROM sessions WHERE sessions.seq = turns.session) AS session_id,
       message, webhook, epoch, created_at, ended_at, parked, wake_at, recoveries, worked_ms, impure_at, warnings,
       suspended_code, sent_by
FROM turns
