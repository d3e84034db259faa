SELECT seq, hash FROM hitl.audit_chain ORDER BY seq DESC LIMIT 1
