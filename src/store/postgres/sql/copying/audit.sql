-- Rows of the audit as they come: two tables keep what is in one of these.
CREATE TEMPORARY TABLE copied_audit (
    seq       bigint NOT NULL,
    at        bigint NOT NULL,
    action    text NOT NULL,
    session   uuid,
    interrupt uuid,
    actor     text,
    address   text,
    details   text NOT NULL,
    prev      text NOT NULL,
    hash      text NOT NULL
) ON COMMIT DROP
