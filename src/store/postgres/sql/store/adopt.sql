-- Servers look at access_version each second: they hear of it by that.
UPDATE hitl.meta SET home = here, branch = p.branch, access_version = access_version + 1
FROM hitl.place p, hitl.whereabouts WHERE NOT at_home
RETURNING 1
