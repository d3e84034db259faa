-- What turns did that nobody took up again. NULL is nothing, and what earlier versions knew of it.

-- JSON, until a turn that was told of it has ended
ALTER TABLE sessions ADD COLUMN abandoned TEXT;
