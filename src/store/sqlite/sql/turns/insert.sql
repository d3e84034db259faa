INSERT INTO turns (id, session, message, webhook, epoch, created_at, parked, recoveries, worked_ms, todo, sent_by)
VALUES (?1, ?2, ?3, ?4, 0, ?5, 0, 0, 0, 0, ?6)
ON CONFLICT (id) DO NOTHING
