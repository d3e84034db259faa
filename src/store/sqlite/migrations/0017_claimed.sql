-- 1 from when a turn is claimed until its owner says that it is at work no more: a server that ends without a word was killed,
-- and what it had at work is counted. Columns are only added: 0 is what earlier versions knew of it, nothing.
ALTER TABLE turns ADD COLUMN claimed INTEGER NOT NULL DEFAULT 0;
