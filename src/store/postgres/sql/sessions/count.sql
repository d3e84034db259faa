SELECT count(*) FROM hitl.sessions
