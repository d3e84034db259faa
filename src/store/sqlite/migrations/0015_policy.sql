-- The policy that was pushed (`hitl policy push`), for whichever server has the file.

CREATE TABLE policy (
    -- there is one at most
    place     INTEGER PRIMARY KEY DEFAULT 1 CHECK (place = 1),
    -- as it was in the file
    text      TEXT NOT NULL,
    -- `sha256:` and that of the text
    digest    TEXT NOT NULL,
    pushed_at INTEGER NOT NULL,
    -- the name of a key; NULL for whoever had the file itself
    pushed_by TEXT
) STRICT;
