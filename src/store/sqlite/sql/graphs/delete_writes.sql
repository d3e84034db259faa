DELETE FROM graph_writes WHERE thread = ?1 AND namespace = ?2 AND checkpoint = ?3
