-- Other servers keep keys, sign-ins and the policy that was pushed in memory, and look at this each second. It is also counted up
-- where they hear of something else by it: of an adoption (adopt.sql), and of a copy that has come (copying/finish.sql).
UPDATE hitl.meta SET access_version = access_version + 1
