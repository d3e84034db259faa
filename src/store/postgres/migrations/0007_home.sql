-- Where the database is, so that one which was restored or copied elsewhere is seen to be another: nothing but this tells the
-- two apart, and what both hold would be told twice.
CREATE VIEW hitl.place AS
    SELECT c.system_identifier::text || '/' || d.oid::text AS here
    FROM pg_control_system() c, pg_database d WHERE d.datname = current_database();
-- Where it was served last; NULL before the first server. Notices go out only there.
ALTER TABLE hitl.meta ADD COLUMN home text;
UPDATE hitl.meta SET schema = 7;
