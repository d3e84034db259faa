SELECT id FROM turns WHERE todo = 0 ORDER BY seq
