-- Until this transaction is over nobody stores anything of the thread.
SELECT pg_advisory_xact_lock(hashtextextended('hitl.graphs ' || $1, 0))
