UPDATE last_told SET number = (SELECT max(event) FROM journal WHERE event IS NOT NULL)
WHERE number < (SELECT max(event) FROM journal WHERE event IS NOT NULL)
