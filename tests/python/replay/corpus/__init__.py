"""Paused journals of every release, and the agents that wrote them: what later releases must be able to go on with."""
