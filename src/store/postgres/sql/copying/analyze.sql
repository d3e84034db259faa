ANALYZE hitl.sessions, hitl.messages, hitl.turns, hitl.journal, hitl.interrupts, hitl.replies, hitl.events, hitl.deeds,
        hitl.audit_chain, hitl.outbox, hitl.graph_checkpoints, hitl.graph_values, hitl.graph_writes
