SELECT id FROM hitl.meta
