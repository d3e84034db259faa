"""The traced agent, in a module whose import starts a thread: its workers are not forked."""

from __future__ import annotations

import threading

from tests.python.support.traced_agent import agent as agent

threading.Thread(target=threading.Event().wait, daemon=True).start()
