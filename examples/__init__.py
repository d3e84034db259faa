"""Agents of other frameworks, and recipes; each is run by a test in `tests/python/examples`.

Those that need nothing besides hitl are a part of the package: `python/hitl/examples`.
"""
