SELECT current_setting('server_version_num')::int, pg_is_in_recovery(), current_setting('fsync'),
       current_setting('server_encoding'), current_setting('synchronous_commit'),
       EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = 'hitl'), to_regclass('hitl.meta') IS NOT NULL
