SELECT sessions.id FROM turns JOIN sessions ON sessions.seq = turns.session WHERE turns.id = ?1
