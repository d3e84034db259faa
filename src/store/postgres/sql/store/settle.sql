-- A new store is at home where it was made.
UPDATE hitl.meta SET home = here FROM hitl.place WHERE home IS NULL
