-- A base backup that was brought to a point in time has all that tells its instance from others. It is seen by the target of
-- that recovery, which stays in its settings, and by its timeline, of which every recovery begins a new one. A standby that
-- was promoted has a new timeline as well, but no target.
ALTER TABLE hitl.meta
    -- the timeline that home is served on, if that instance was brought to a point in time
    ADD COLUMN branch text;
CREATE OR REPLACE VIEW hitl.place AS
    SELECT c.system_identifier::text || '/' || d.oid::text AS here,
        CASE WHEN concat(
            current_setting('recovery_target', true), current_setting('recovery_target_lsn', true),
            current_setting('recovery_target_name', true), current_setting('recovery_target_time', true),
            current_setting('recovery_target_xid', true)
        ) <> '' THEN substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8) END AS branch
    FROM pg_control_system() c, pg_database d WHERE d.datname = current_database();
-- Whether the database is where it was served last: notices go out only then.
CREATE VIEW hitl.whereabouts AS
    SELECT coalesce(m.home = p.here AND (p.branch IS NULL OR p.branch = m.branch), false) AS at_home
    FROM hitl.meta m, hitl.place p;
UPDATE hitl.meta SET schema = 8, branch = p.branch FROM hitl.place p;
