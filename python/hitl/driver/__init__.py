"""Runs an agent's turns from frames: the same in a worker and in a run without a server."""
