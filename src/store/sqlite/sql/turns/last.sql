WHERE session = (SELECT seq FROM sessions WHERE id = ?1) ORDER BY seq DESC LIMIT 1
