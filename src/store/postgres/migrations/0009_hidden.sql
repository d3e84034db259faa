-- Whether something else may run than the arguments of a tool approval say; NULL where not, and of earlier versions.
ALTER TABLE hitl.interrupts ADD COLUMN hidden boolean;
-- With all that is asked of what is due: thousands of notices to a receiver that does not answer are passed over without reading them.
DROP INDEX hitl.outbox_due;
CREATE INDEX outbox_due ON hitl.outbox (due_at, seq) INCLUDE (origin, event, status) WHERE due_at IS NOT NULL;
UPDATE hitl.meta SET schema = 9;
