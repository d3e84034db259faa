INSERT INTO events (session, status, interrupt, error, stored_at) VALUES (?1, ?2, ?3, ?4, ?5)
