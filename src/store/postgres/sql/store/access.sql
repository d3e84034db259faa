-- A standby that is promoted begins another timeline, with whose number the names of its log begin from then on. One that is
-- none yet has no such name.
SELECT access_version, CASE WHEN pg_is_in_recovery() THEN 0
                            ELSE ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint END AS promotions
FROM hitl.meta
