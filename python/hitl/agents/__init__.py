"""Agents: `ReActAgent`, and everything else that may be served as one."""
