-- Until this transaction is over nobody deletes anything of the thread: what a checkpoint names must not go meanwhile.
SELECT pg_advisory_xact_lock_shared(hashtextextended('hitl.graphs ' || $1, 0))
