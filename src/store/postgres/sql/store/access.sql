SELECT access_version FROM hitl.meta
