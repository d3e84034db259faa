-- Who may let something run. Columns are only added: NULL is what earlier versions knew of it, nothing.

-- 1 where the answer may let something run although its type does not say so
ALTER TABLE interrupts ADD COLUMN lets_run INTEGER;

-- Turns that came from elsewhere, or went there, in a signed run state. Rows outlive the sessions and stay: one for each
-- turn that was exported or imported so.
CREATE TABLE carried_turns (
    turn BLOB PRIMARY KEY,
    -- where the turn stood when its session was deleted: how many entries its journal had, and their digest. NULL where
    -- it is here, or has ended.
    entries INTEGER,
    digest TEXT
) STRICT, WITHOUT ROWID;
