-- How many entries a turn's journal had when it was claimed, until its owner says that it is at work no more: a server that ends
-- without a word was killed, and where the turn has come no further, that is counted. Columns are only added: NULL is what earlier
-- versions knew of it, nothing.
ALTER TABLE turns ADD COLUMN claimed INTEGER;
