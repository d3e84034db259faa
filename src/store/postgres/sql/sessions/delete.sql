-- Fails the whole transaction unless every one is as it was read. Events, notices, and what the audit tells, stay.
WITH gone AS (
    DELETE FROM hitl.sessions s
    USING unnest($1::uuid[], $2::bigint[], $3::bigint[]) AS n(id, seen_version, seen_token)
    WHERE s.id = n.id AND s.version = n.seen_version AND s.token = n.seen_token
    RETURNING s.id
), messages AS (
    DELETE FROM hitl.messages USING gone WHERE session = gone.id
), turns AS (
    DELETE FROM hitl.turns USING gone WHERE session = gone.id
), journal AS (
    DELETE FROM hitl.journal USING gone WHERE session = gone.id
), interrupts AS (
    DELETE FROM hitl.interrupts USING gone WHERE session = gone.id
)
SELECT 1 / (count(*) = cardinality($1))::int FROM gone
