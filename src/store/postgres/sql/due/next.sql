SELECT least((SELECT min(due_at) FROM hitl.interrupts WHERE due_at IS NOT NULL),
             (SELECT min(wake_at) FROM hitl.turns WHERE wake_at IS NOT NULL))
