-- How many entries a turn's journal had when it was claimed, until its owner says that it is at work no more: a server that ends
-- without a word was killed, and where the turn has come no further, that is counted. The release before leaves it as it is.
ALTER TABLE hitl.turns ADD COLUMN claimed bigint;
UPDATE hitl.meta SET schema = 10;
