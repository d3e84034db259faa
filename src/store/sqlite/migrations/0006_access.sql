-- Keys, and who has signed in with one.

CREATE TABLE keys (
    seq        INTEGER PRIMARY KEY,
    id         BLOB NOT NULL UNIQUE,
    name       TEXT NOT NULL,
    -- JSON lists of words
    scopes     TEXT NOT NULL,
    key_groups TEXT NOT NULL,
    -- SHA-256 of the secret, which is nowhere
    digest     BLOB NOT NULL UNIQUE,
    created_at INTEGER NOT NULL,
    created_by TEXT,
    revoked_at INTEGER
) STRICT;

-- A name can be given again once its key is revoked.
CREATE UNIQUE INDEX keys_by_name ON keys (name) WHERE revoked_at IS NULL;

CREATE TABLE sign_ins (
    -- SHA-256 of the cookie's token
    token   BLOB PRIMARY KEY,
    -- the digest of the key, which may be one of `--api-key`
    key     BLOB NOT NULL,
    ends_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
