UPDATE hitl.interrupts i
SET session = n.session, turn = n.turn, type = n.type, payload = n.payload, status = n.status,
    message = n.message, built_in_schema = n.built_in_schema, response_schema = n.response_schema,
    allowed_decisions = n.allowed_decisions, tool = n.tool, tool_call_id = n.tool_call_id, agent = n.agent,
    rule = n.rule, args_digest = n.args_digest, created_at = n.created_at, expires_at = n.expires_at,
    value = n.value, resolved_by = n.resolved_by, resolved_at = n.resolved_at, metadata = n.metadata,
    tool_source = n.tool_source, args_schema = n.args_schema, claimed_by = n.claimed_by,
    claimed_until = n.claimed_until, snoozed_by = n.snoozed_by, snoozed_until = n.snoozed_until,
    sent_by = n.sent_by, approvers = n.approvers, rule_failed = n.rule_failed,
    tool_approvers = n.tool_approvers, lets_run = n.lets_run, hidden = n.hidden,
    due_at = CASE WHEN n.status = 'pending' AND NOT EXISTS (
           SELECT 1 FROM hitl.turns t WHERE t.id = n.turn AND t.session = n.session AND t.suspended_code IS NOT NULL
       ) THEN n.expires_at END
FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::text[], $5::text[], $6::text[], $7::text[],
            $8::boolean[], $9::text[], $10::text[], $11::text[], $12::text[], $13::text[], $14::text[],
            $15::text[], $16::bigint[], $17::bigint[], $18::text[], $19::text[], $20::bigint[], $21::text[],
            $22::text[], $23::text[], $24::text[], $25::bigint[], $26::text[], $27::bigint[], $28::text[],
            $29::text[], $30::text[], $31::text[], $32::boolean[], $33::boolean[])
     AS n(id, session, turn, type, payload, status, message, built_in_schema, response_schema, allowed_decisions,
      tool, tool_call_id, agent, rule, args_digest, created_at, expires_at, value, resolved_by, resolved_at,
      metadata, tool_source, args_schema, claimed_by, claimed_until, snoozed_by, snoozed_until, sent_by,
      approvers, rule_failed, tool_approvers, lets_run, hidden)
WHERE i.id = n.id
