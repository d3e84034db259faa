SELECT thread, namespace, id, channels, versions FROM hitl.graph_checkpoints
