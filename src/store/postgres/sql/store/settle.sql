-- A new store is at home where it was made.
UPDATE hitl.meta SET home = here, branch = p.branch FROM hitl.place p WHERE home IS NULL
