UPDATE hitl.servers SET draining = true WHERE id = $1 AND kind = 'server' RETURNING 1
