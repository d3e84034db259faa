SELECT min(due_at) FROM interrupts WHERE due_at IS NOT NULL
