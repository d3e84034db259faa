-- Checkpoints of graphs that run on their own and keep them here. They belong to no session, and nobody sweeps them.
-- Names are compared byte by byte, as the other stores do: ids are in the order of time.

CREATE TABLE hitl.graph_checkpoints (
    thread        text COLLATE "C" NOT NULL,
    namespace     text COLLATE "C" NOT NULL,
    id            text COLLATE "C" NOT NULL,
    -- the id of the one before it
    parent        text,
    run           text,
    -- of each channel, the version of its value
    channels      text[] COLLATE "C" NOT NULL,
    versions      text[] COLLATE "C" NOT NULL,
    body_type     text NOT NULL,
    body          bytea NOT NULL,
    metadata_type text NOT NULL,
    metadata      bytea NOT NULL,
    PRIMARY KEY (thread, namespace, id)
);
CREATE INDEX graph_checkpoints_by_id ON hitl.graph_checkpoints (id, thread, namespace);
CREATE INDEX graph_checkpoints_of_run ON hitl.graph_checkpoints (run) WHERE run IS NOT NULL;

-- What channels held: one row for each version, however many checkpoints name it.
CREATE TABLE hitl.graph_values (
    thread    text COLLATE "C" NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    channel   text COLLATE "C" NOT NULL,
    version   text COLLATE "C" NOT NULL,
    type      text NOT NULL,
    value     bytea NOT NULL,
    PRIMARY KEY (thread, namespace, channel, version)
);

-- What tasks have written after a checkpoint. One may be written before its checkpoint is.
CREATE TABLE hitl.graph_writes (
    thread     text COLLATE "C" NOT NULL,
    namespace  text COLLATE "C" NOT NULL,
    checkpoint text COLLATE "C" NOT NULL,
    task       text COLLATE "C" NOT NULL,
    place      bigint NOT NULL,
    path       text COLLATE "C" NOT NULL,
    channel    text NOT NULL,
    type       text NOT NULL,
    value      bytea NOT NULL,
    PRIMARY KEY (thread, namespace, checkpoint, task, place)
);

UPDATE hitl.meta SET schema = 2;
