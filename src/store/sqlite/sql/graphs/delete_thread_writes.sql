DELETE FROM graph_writes WHERE thread = ?1
