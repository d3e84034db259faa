-- Checkpoints of graphs that run on their own and keep them here. They belong to no session, and nobody sweeps them.

CREATE TABLE graph_checkpoints (
    thread        TEXT NOT NULL,
    namespace     TEXT NOT NULL,
    id            TEXT NOT NULL,
    -- the id of the one before it
    parent        TEXT,
    run           TEXT,
    -- JSON: of each channel, the version of its value
    versions      TEXT NOT NULL,
    body_type     TEXT NOT NULL,
    body          BLOB NOT NULL,
    metadata_type TEXT NOT NULL,
    metadata      BLOB NOT NULL,
    PRIMARY KEY (thread, namespace, id)
) STRICT;
CREATE INDEX graph_checkpoints_by_id ON graph_checkpoints (id, thread, namespace);
CREATE INDEX graph_checkpoints_of_run ON graph_checkpoints (run) WHERE run IS NOT NULL;

-- What channels held: one row for each version, however many checkpoints name it.
CREATE TABLE graph_values (
    thread    TEXT NOT NULL,
    namespace TEXT NOT NULL,
    channel   TEXT NOT NULL,
    version   TEXT NOT NULL,
    type      TEXT NOT NULL,
    value     BLOB NOT NULL,
    PRIMARY KEY (thread, namespace, channel, version)
) STRICT;

-- What tasks have written after a checkpoint. One may be written before its checkpoint is.
CREATE TABLE graph_writes (
    thread     TEXT NOT NULL,
    namespace  TEXT NOT NULL,
    checkpoint TEXT NOT NULL,
    task       TEXT NOT NULL,
    place      INTEGER NOT NULL,
    path       TEXT NOT NULL,
    channel    TEXT NOT NULL,
    type       TEXT NOT NULL,
    value      BLOB NOT NULL,
    PRIMARY KEY (thread, namespace, checkpoint, task, place)
) STRICT;
