SELECT id, (SELECT sessions.id FROM sessions WHERE sessions.seq = turns.session) AS session_id,
       message, webhook, epoch, created_at, ended_at
FROM turns
