-- Several servers at work at once keep keys and sign-ins in memory: how often those have changed.
ALTER TABLE hitl.meta ADD COLUMN access_version bigint NOT NULL DEFAULT 0;
UPDATE hitl.meta SET schema = 3;
