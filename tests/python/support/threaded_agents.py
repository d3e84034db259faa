"""`playbook`, in a module that starts a thread when it is imported: its workers are not forked."""

from __future__ import annotations

import threading

from tests.python.support.agents import playbook as playbook

threading.Thread(target=threading.Event().wait, daemon=True).start()
