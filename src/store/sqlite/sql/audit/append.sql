INSERT INTO audit (seq, at, action, session, interrupt, actor, address, details, prev, hash)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
