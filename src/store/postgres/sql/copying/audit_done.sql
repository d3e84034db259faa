INSERT INTO hitl.deeds (number, at, action, session, interrupt, actor, address, details)
SELECT seq, at, action, session, interrupt, actor, address, details FROM copied_audit;
INSERT INTO hitl.audit_chain (seq, number, prev, hash)
SELECT seq, seq, prev, hash FROM copied_audit
