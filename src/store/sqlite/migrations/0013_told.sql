-- Entries of journals that listeners are told of. They have no row among the events: a step is one row, as before.

-- the number, among those of the events; NULL for most
ALTER TABLE journal ADD COLUMN event INTEGER;
CREATE UNIQUE INDEX journal_told ON journal (event) WHERE event IS NOT NULL;

CREATE TABLE last_told (
    -- the largest number of an entry that is gone with its journal, so that it is not given away again
    number INTEGER NOT NULL,
    -- the first event that was left when events were swept last: entries before it are told no more
    swept  INTEGER NOT NULL
) STRICT;
INSERT INTO last_told (number, swept) VALUES (0, 0);
