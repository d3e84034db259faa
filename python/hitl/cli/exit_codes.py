"""What `hitl` exits with. Scripts rely on these numbers."""

from __future__ import annotations

from typing import Final

OK: Final = 0
RUNTIME: Final = 1
"""It was tried and failed: no connection, a turn that ended in an error, a server that refused."""
USAGE: Final = 2
"""It was not tried, or refused, because of what was asked: a wrong option, an answer that is not valid."""
AGENT_IMPORT: Final = 3
"""The agent could not be imported."""
NOT_FOUND: Final = 4
CONFLICT: Final = 5
"""The session or interrupt is in another state: somebody answered first, it has expired, a turn is at work."""
NEEDS_PERSON: Final = 6
"""`hitl chat` without a terminal: the turn waits for a person."""
INTERRUPTED: Final = 130
"""Ctrl-C."""
