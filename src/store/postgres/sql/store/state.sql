SELECT current_setting('server_version_num')::int, pg_is_in_recovery(), current_setting('fsync'),
       current_setting('server_encoding'), current_setting('synchronous_commit'),
       -- an empty one, which somebody made for it, is none yet
       EXISTS (SELECT 1 FROM pg_class WHERE relnamespace = to_regnamespace('hitl')
               UNION ALL SELECT 1 FROM pg_type WHERE typnamespace = to_regnamespace('hitl')
               UNION ALL SELECT 1 FROM pg_proc WHERE pronamespace = to_regnamespace('hitl')),
       to_regclass('hitl.meta') IS NOT NULL
