-- Whoever is there goes on reading; nobody can come, nor say that it lives.
SET LOCAL lock_timeout = 5000; SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0;
LOCK TABLE hitl.servers IN SHARE ROW EXCLUSIVE MODE
