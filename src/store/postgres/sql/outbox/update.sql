-- Fails the whole transaction where one is gone: notices outlive the session whose row is compared.
WITH written AS (
    UPDATE hitl.outbox o
    SET session = n.session, interrupt = n.interrupt, event = n.event, url = n.url, token = n.token,
        body = n.body, status = n.status, created_at = n.created_at, due_at = n.due_at, leased = n.leased,
        attempts = n.attempts, last_error = n.last_error, settled_at = n.settled_at, origin = n.origin
    FROM unnest($1::uuid[], $2::bigint[], $3::uuid[], $4::uuid[], $5::text[], $6::text[], $7::text[],
                $8::text[], $9::text[], $10::bigint[], $11::bigint[], $12::boolean[], $13::bigint[],
                $14::text[], $15::bigint[], $16::text[])
         AS n(id, reminder, session, interrupt, event, url, token, body, status, created_at, due_at, leased,
          attempts, last_error, settled_at, origin)
    WHERE o.id = n.id AND o.reminder = n.reminder
    RETURNING 1
)
SELECT 1 / (count(*) = cardinality($1))::int FROM written
