-- The policy that was pushed (`hitl policy push`), for all servers. They read it anew when meta.access_version has changed.
CREATE TABLE hitl.policy (
    -- there is one at most
    place     int PRIMARY KEY DEFAULT 1 CHECK (place = 1),
    -- as it was in the file
    text      text NOT NULL,
    -- `sha256:` and that of the text
    digest    text NOT NULL,
    pushed_at bigint NOT NULL,
    -- the name of a key; NULL for whoever had the database itself
    pushed_by text
);
UPDATE hitl.meta SET schema = 4;
