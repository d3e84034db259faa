-- Who works on an interrupt, and who has put it off. Columns are only added: NULL means nobody.

ALTER TABLE interrupts ADD COLUMN claimed_by TEXT;
ALTER TABLE interrupts ADD COLUMN claimed_until INTEGER;
ALTER TABLE interrupts ADD COLUMN snoozed_by TEXT;
ALTER TABLE interrupts ADD COLUMN snoozed_until INTEGER;

-- What is settled is in neither.
CREATE INDEX interrupts_claimed ON interrupts (claimed_by) WHERE claimed_by IS NOT NULL;
CREATE INDEX interrupts_snoozed ON interrupts (snoozed_until) WHERE snoozed_until IS NOT NULL;
