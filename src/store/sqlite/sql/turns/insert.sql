INSERT INTO turns (id, session, message, webhook, epoch, created_at, ended_at)
VALUES (?1, ?2, ?3, ?4, 0, ?5, NULL)
