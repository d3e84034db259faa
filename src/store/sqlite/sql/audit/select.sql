SELECT seq, at, action, session, interrupt, actor, address, details, prev, hash
FROM audit
