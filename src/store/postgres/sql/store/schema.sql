SELECT schema FROM hitl.meta WHERE program = 'hitl'
