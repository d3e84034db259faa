DELETE FROM graph_values WHERE thread = ?1
