-- Which server goes on with a turn: one with the code that recorded it, while one is there.
ALTER TABLE hitl.turns
    -- the code that had it last and did not fail with it; NULL: any may take it
    ADD COLUMN code text,
    -- a JSON list of the codes that did
    ADD COLUMN refused_by text;
-- What each server runs, and what should be the same at all of them: digests, never values.
ALTER TABLE hitl.servers
    ADD COLUMN code text,
    ADD COLUMN options text,
    ADD COLUMN policy text;
UPDATE hitl.meta SET schema = 6;
