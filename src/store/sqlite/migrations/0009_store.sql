-- Which store this is: a run that is carried about as text says where its turn lives, and must not say the path.

CREATE TABLE store (
    -- drawn when the table is made; a copy of the file is the same store
    id BLOB NOT NULL
) STRICT;
INSERT INTO store (id) VALUES (randomblob(16));
