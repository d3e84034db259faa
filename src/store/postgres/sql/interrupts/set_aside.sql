UPDATE hitl.interrupts SET due_at = NULL WHERE id = ANY ($1::uuid[])
