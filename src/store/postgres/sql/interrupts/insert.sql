INSERT INTO hitl.interrupts (id, session, turn, type, payload, status, message, built_in_schema, response_schema, allowed_decisions,
    tool, tool_call_id, agent, rule, args_digest, created_at, expires_at, value, resolved_by, resolved_at,
    metadata, tool_source, args_schema, claimed_by, claimed_until, snoozed_by, snoozed_until, sent_by,
    approvers, rule_failed, tool_approvers, lets_run, hidden, due_at)
SELECT id, session, turn, type, payload, status, message, built_in_schema, response_schema,
       allowed_decisions, tool, tool_call_id, agent, rule, args_digest, created_at, expires_at, value,
       resolved_by, resolved_at, metadata, tool_source, args_schema, claimed_by, claimed_until, snoozed_by,
       snoozed_until, sent_by, approvers, rule_failed, tool_approvers, lets_run, hidden,
       CASE WHEN n.status = 'pending' AND NOT EXISTS (
           SELECT 1 FROM hitl.turns t WHERE t.id = n.turn AND t.session = n.session AND t.suspended_code IS NOT NULL
       ) THEN n.expires_at END
FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::text[], $5::text[], $6::text[], $7::text[],
            $8::boolean[], $9::text[], $10::text[], $11::text[], $12::text[], $13::text[], $14::text[],
            $15::text[], $16::bigint[], $17::bigint[], $18::text[], $19::text[], $20::bigint[], $21::text[],
            $22::text[], $23::text[], $24::text[], $25::bigint[], $26::text[], $27::bigint[], $28::text[],
            $29::text[], $30::text[], $31::text[], $32::boolean[], $33::boolean[])
     WITH ORDINALITY AS n(id, session, turn, type, payload, status, message, built_in_schema, response_schema, allowed_decisions,
      tool, tool_call_id, agent, rule, args_digest, created_at, expires_at, value, resolved_by, resolved_at,
      metadata, tool_source, args_schema, claimed_by, claimed_until, snoozed_by, snoozed_until, sent_by,
      approvers, rule_failed, tool_approvers, lets_run, hidden, place)
ORDER BY place
