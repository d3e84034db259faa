"""Agents to serve and to learn from, which need nothing besides hitl: `hitl demo` serves them.

Each is run by a test of the project. Those of other frameworks are in the repository, in `examples`.
"""
