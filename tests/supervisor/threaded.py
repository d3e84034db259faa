"""An agent whose import starts a thread, which makes forking unsafe."""

import threading

from agents import agent

__all__ = ["agent"]

threading.Thread(target=threading.Event().wait, daemon=True).start()
