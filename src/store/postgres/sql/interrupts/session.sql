SELECT session FROM hitl.interrupts WHERE id = $1
