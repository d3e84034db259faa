-- Other servers keep keys and sign-ins in memory, and look at this.
UPDATE hitl.meta SET access_version = access_version + 1
