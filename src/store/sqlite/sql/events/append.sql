INSERT INTO events (session, name, data, stored_at) VALUES (?1, ?2, ?3, ?4)
