SELECT sessions.id FROM interrupts JOIN sessions ON sessions.seq = interrupts.session WHERE interrupts.id = ?1
