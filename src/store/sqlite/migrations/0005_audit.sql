-- Who did what. Rows are only ever added: triggers refuse everything else, and each row holds the hash of the one before
-- it, for whoever takes the triggers away. Nothing refers to sessions: what was done outlives them.

CREATE TABLE audit (
    seq       INTEGER PRIMARY KEY,
    at        INTEGER NOT NULL,
    action    TEXT NOT NULL,
    session   BLOB,
    interrupt BLOB,
    actor     TEXT,
    address   TEXT,
    details   TEXT NOT NULL,
    prev      TEXT NOT NULL,
    hash      TEXT NOT NULL
) STRICT;

CREATE INDEX audit_of_session ON audit (session) WHERE session IS NOT NULL;
CREATE INDEX audit_of_interrupt ON audit (interrupt) WHERE interrupt IS NOT NULL;
CREATE INDEX audit_of_actor ON audit (actor) WHERE actor IS NOT NULL;

CREATE TRIGGER audit_is_not_changed BEFORE UPDATE ON audit BEGIN
    SELECT RAISE(ABORT, 'rows of the audit are never changed');
END;
CREATE TRIGGER audit_is_not_shortened BEFORE DELETE ON audit BEGIN
    SELECT RAISE(ABORT, 'rows of the audit are never removed');
END;
-- INSERT OR REPLACE would get around the one before.
CREATE TRIGGER audit_is_not_replaced BEFORE INSERT ON audit
WHEN new.seq IS NOT (SELECT coalesce(max(seq), 0) + 1 FROM audit) BEGIN
    SELECT RAISE(ABORT, 'rows of the audit are only added at its end');
END;
