-- Whether anything was committed that has to wait for what still runs: by the last one, and not by whether there is any, for which all
-- would be looked at.
SELECT coalesce((SELECT max(number) FROM hitl.deeds) >= current_setting('hitl.horizon')::bigint, false)
