-- 1 where something else may run than the arguments of a tool approval say. Columns are only added: NULL is what earlier versions
-- knew of it, nothing.
ALTER TABLE interrupts ADD COLUMN hidden INTEGER;

-- With all that is asked of what is due but a receiver has to have: thousands of notices to one that does not answer are passed
-- over without reading them.
DROP INDEX outbox_due;
CREATE INDEX outbox_due ON outbox (due_at, seq, origin, event, status) WHERE due_at IS NOT NULL;
