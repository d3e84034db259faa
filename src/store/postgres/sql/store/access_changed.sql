-- Other servers keep keys, sign-ins and the policy that was pushed in memory, and look at this.
UPDATE hitl.meta SET access_version = access_version + 1
