INSERT INTO hitl.audit_chain (seq, number, prev, hash)
SELECT seq, number, prev, hash
FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[])
     WITH ORDINALITY AS n(seq, number, prev, hash, place)
ORDER BY place
