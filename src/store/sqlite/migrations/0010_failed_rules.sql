-- Rules that could not tell. Columns are only added: NULL is what earlier versions knew of it, nothing.

-- which rules, and why
ALTER TABLE interrupts ADD COLUMN rule_failed TEXT;
-- JSON list: whom the tool itself names, where the approvers are those of a rule
ALTER TABLE interrupts ADD COLUMN tool_approvers TEXT;
