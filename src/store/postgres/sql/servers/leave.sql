DELETE FROM hitl.servers WHERE id = $1
