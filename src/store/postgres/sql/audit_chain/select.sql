SELECT c.seq, d.at, d.action, d.session, d.interrupt, d.actor, d.address, d.details, c.prev, c.hash
FROM hitl.audit_chain c JOIN hitl.deeds d ON d.number = c.number
