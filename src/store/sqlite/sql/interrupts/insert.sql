INSERT INTO interrupts (id, session, turn, type, payload, status, message, built_in_schema, response_schema,
                        allowed_decisions, tool, tool_call_id, agent, rule, args_digest, created_at, expires_at,
                        value, resolved_by, resolved_at, metadata, tool_source, args_schema, due_at, claimed_by,
                        claimed_until, snoozed_by, snoozed_until, sent_by, approvers, rule_failed, tool_approvers,
                        lets_run, hidden)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23,
        ?24, ?25, ?26, ?27, ?28, ?29, ?30, ?31, ?32, ?33, ?34)
ON CONFLICT (id) DO NOTHING
