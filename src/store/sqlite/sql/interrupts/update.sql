UPDATE interrupts
SET session = ?2, turn = ?3, type = ?4, payload = ?5, status = ?6, message = ?7, built_in_schema = ?8,
    response_schema = ?9, allowed_decisions = ?10, tool = ?11, tool_call_id = ?12, agent = ?13, rule = ?14,
    args_digest = ?15, created_at = ?16, expires_at = ?17, value = ?18, resolved_by = ?19, resolved_at = ?20,
    metadata = ?21, tool_source = ?22, args_schema = ?23, due_at = ?24, claimed_by = ?25,
    claimed_until = ?26, snoozed_by = ?27, snoozed_until = ?28, sent_by = ?29, approvers = ?30,
    rule_failed = ?31, tool_approvers = ?32, lets_run = ?33, hidden = ?34
WHERE id = ?1
