-- Servers look at access_version each second: they hear of it by that.
UPDATE hitl.meta SET home = here, access_version = access_version + 1
FROM hitl.place WHERE home IS DISTINCT FROM here
RETURNING 1
