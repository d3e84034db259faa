-- From when a turn is claimed until its owner says that it is at work no more: a server that ends without a word was killed, and
-- what it had at work is counted. The release before leaves it as it is.
ALTER TABLE hitl.turns ADD COLUMN claimed boolean NOT NULL DEFAULT false;
UPDATE hitl.meta SET schema = 10;
