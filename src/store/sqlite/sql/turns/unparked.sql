WHERE todo = 0 ORDER BY seq
