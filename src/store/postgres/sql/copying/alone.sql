-- Whoever is there goes on reading; nobody can come, nor say that it lives.
SET LOCAL lock_timeout = 5000; SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0;
-- From PostgreSQL 17 on.
SELECT set_config(name, '0', true) FROM pg_settings WHERE name = 'transaction_timeout';
LOCK TABLE hitl.servers IN SHARE ROW EXCLUSIVE MODE
