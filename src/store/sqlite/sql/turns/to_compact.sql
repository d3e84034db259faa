SELECT seq FROM turns
WHERE todo BETWEEN 1 AND ?1 - 1
ORDER BY todo, seq LIMIT ?2
