SELECT id, (SELECT sessions.id FROM sessions WHERE sessions.seq = turns.session) AS session_id,
       message, webhook, created_at, impure_at, warnings, sent_by,
       epoch, recoveries, worked_ms, claimed, parked, wake_at, ended_at, suspended_code
FROM turns
