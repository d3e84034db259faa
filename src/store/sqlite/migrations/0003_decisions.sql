-- Rules and standing decisions of a session, and what a decision about a tool call is checked against. Columns are only
-- added: what version 2 wrote stays as it is, and NULL means that it has none of it.

-- its own rules, as JSON
ALTER TABLE sessions ADD COLUMN rules TEXT;
-- what was decided for the rest of it, as JSON
ALTER TABLE sessions ADD COLUMN grants TEXT;

-- a tool approval's tool: where it is from when it is not the agent's own
ALTER TABLE interrupts ADD COLUMN tool_source TEXT;
-- the JSON Schema of its arguments, where they can be edited
ALTER TABLE interrupts ADD COLUMN args_schema TEXT;
