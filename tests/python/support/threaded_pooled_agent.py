"""The agent that needs a pool, behind an import that starts a thread: its workers are not forked."""

import threading

from tests.python.support.pooled_agent import agent

__all__ = ["agent"]

threading.Thread(target=threading.Event().wait, daemon=True).start()
