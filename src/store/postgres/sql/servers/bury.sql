DELETE FROM hitl.servers WHERE id = $1 AND beat = $2 RETURNING 1
