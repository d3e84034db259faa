SELECT pg_notify('hitl', $1)
