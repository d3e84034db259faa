"""What a process hands over before it ends: one that runs a single turn ends by ``os._exit``, without exit handlers,
and what a tracing library has collected would be lost with it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

logger = logging.getLogger("hitl.driver")

_flushes: list[Callable[[], object]] = []


def before_exit(flush: Callable[[], object]) -> None:
    """Call ``flush``, which may block, once the turns of this process have ended or left it. Each is called once."""
    if flush not in _flushes:
        _flushes.append(flush)


def flush_all(seconds: float) -> None:
    """Call them all; those that are not done after so many seconds are left."""
    if not _flushes:
        return
    thread = threading.Thread(target=_flush, name="hitl flush", daemon=True)
    thread.start()
    thread.join(seconds)


def _flush() -> None:
    for flush in _flushes:
        try:
            flush()
        except Exception as error:  # noqa: BLE001  (the others have something to hand over too)
            logger.warning("what was traced could not be handed over: %s", type(error).__name__)
