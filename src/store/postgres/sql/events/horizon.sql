-- Whether anything was committed that has to wait for what still runs: by the last one, and not by whether there is any, for which all
-- would be looked at.
SELECT coalesce(greatest((SELECT max(number) FROM hitl.events), (SELECT max(event) FROM hitl.journal)) >= current_setting('hitl.horizon')::bigint, false)
