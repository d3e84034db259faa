-- Fails the whole transaction where one does not stand where it was seen: notices outlive the session whose row is compared.
WITH written AS (
    UPDATE hitl.outbox o
    SET status = n.status, leased = n.leased, attempts = n.attempts, due_at = n.due_at,
        body = CASE WHEN n.keeps_body THEN o.body ELSE n.body END,
        session = n.session, interrupt = n.interrupt, event = n.event, url = n.url, token = n.token,
        created_at = n.created_at, last_error = n.last_error, settled_at = n.settled_at, origin = n.origin
    FROM unnest($1::uuid[], $2::bigint[], $3::text[], $4::boolean[], $5::bigint[], $6::bigint[], $7::text[],
                $8::boolean[], $9::bigint[], $10::bigint[], $11::boolean[], $12::text[], $13::uuid[],
                $14::uuid[], $15::text[], $16::text[], $17::text[], $18::bigint[], $19::text[],
                $20::bigint[], $21::text[])
         AS n(id, reminder, seen_status, seen_leased, seen_attempts, seen_due_at, status, leased, attempts,
          due_at, keeps_body, body, session, interrupt, event, url, token, created_at, last_error,
          settled_at, origin)
    WHERE o.id = n.id AND o.reminder = n.reminder AND o.status = n.seen_status AND o.leased = n.seen_leased
      AND o.attempts = n.seen_attempts AND o.due_at IS NOT DISTINCT FROM n.seen_due_at
    RETURNING 1
)
SELECT 1 / (count(*) = cardinality($1))::int FROM written
