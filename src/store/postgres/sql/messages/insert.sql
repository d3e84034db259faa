INSERT INTO hitl.messages (session, idx, message)
SELECT session, idx, message
FROM unnest($1::uuid[], $2::bigint[], $3::text[])
     WITH ORDINALITY AS n(session, idx, message, place)
ORDER BY place
