INSERT INTO journal (turn, idx, at, entry, path, kind, name, location, arguments, interrupt, body)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
