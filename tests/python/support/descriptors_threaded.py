"""`starter`, in a module that starts a thread when it is imported: its workers are not forked."""

from __future__ import annotations

import threading

from tests.python.support.descriptors import starter as starter

threading.Thread(target=threading.Event().wait, daemon=True).start()
