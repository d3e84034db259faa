"""Agents to serve and to learn from; each is run by a test in `tests/python/examples`."""
