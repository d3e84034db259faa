"""Tests of other frameworks, as they are, inside of turns: `pytest -p inturns.plugin`. See docs/upstream.md."""
