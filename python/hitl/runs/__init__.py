"""Runs without a server: ``hitl.run`` and what belongs to it."""
