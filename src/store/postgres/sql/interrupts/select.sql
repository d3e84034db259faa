SELECT seq, id, session, turn, type, payload, status, message, built_in_schema, response_schema, allowed_decisions,
       tool_call_id, agent, rule, args_digest, created_at, expires_at, value, resolved_by, resolved_at, metadata,
       tool_source, args_schema, claimed_by, claimed_until, snoozed_by, snoozed_until, sent_by, approvers,
       rule_failed, lets_run, hidden, tool_approvers
FROM hitl.interrupts
