INSERT INTO messages (session, idx, message) VALUES (?1, ?2, ?3)
