UPDATE hitl.turns SET wake_at = NULL WHERE id = ANY ($1::uuid[])
