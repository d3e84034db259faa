SELECT entries, digest FROM hitl.carried_turns WHERE turn = $1
