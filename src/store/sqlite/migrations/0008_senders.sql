-- Who may not answer, and who may. Columns are only added: NULL is what earlier versions knew of it, nothing.

-- the name of the key that sent the turn's message
ALTER TABLE turns ADD COLUMN sent_by TEXT;
ALTER TABLE interrupts ADD COLUMN sent_by TEXT;
-- JSON list: who alone may answer
ALTER TABLE interrupts ADD COLUMN approvers TEXT;
