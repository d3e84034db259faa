"""The loop on which the replay tests run: a worker's own kind, and not the one of pytest."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from hitl.worker import loops

T = TypeVar("T")


def on_own_loop(main: Coroutine[Any, Any, T]) -> T:
    """Run ``main`` on a new loop of a worker. Generated agents lose failures on purpose: nothing is logged."""
    loop = loops.new_loop()
    loop.set_exception_handler(lambda _, __: None)
    try:
        return loop.run_until_complete(main)
    finally:
        asyncio.set_event_loop(None)
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
