-- What each server says of itself, for people and for those who give their turns to others.
ALTER TABLE hitl.servers
    ADD COLUMN version text NOT NULL DEFAULT '',
    ADD COLUMN agent text,
    ADD COLUMN serves_http boolean NOT NULL DEFAULT false,
    -- turns that may be at work there: none where it runs none
    ADD COLUMN workers bigint NOT NULL DEFAULT 0,
    ADD COLUMN at_work bigint NOT NULL DEFAULT 0,
    -- it ends, or is asked to
    ADD COLUMN draining boolean NOT NULL DEFAULT false;
UPDATE hitl.meta SET schema = 5;
