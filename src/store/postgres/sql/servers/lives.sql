-- Fails where the server is dead (2201E): then nothing of its transaction counts.
SELECT ln(count(*)) FROM hitl.servers WHERE id = $1
