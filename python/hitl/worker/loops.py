"""The event loop of a worker: ours, so that tasks are numbered and no agent can end it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from hitl.rebound import rebind
from hitl.schedule import install


def new_loop() -> asyncio.AbstractEventLoop:
    """A selector loop, set as this thread's, that keeps the order of turns."""
    rebind()
    loop = asyncio.SelectorEventLoop()
    asyncio.set_event_loop(loop)
    install(loop)
    return loop


def run(loop: asyncio.AbstractEventLoop, main: Coroutine[Any, Any, None]) -> None:
    """Run ``main`` to its end.

    A SystemExit or KeyboardInterrupt that some task of an agent raises is that task's result, as any exception; asyncio
    also lets it fly out of the loop, which then goes on here.
    """
    task = loop.create_task(main)
    task.add_done_callback(lambda _: loop.stop())
    while not task.done():
        try:
            loop.run_forever()
        except (SystemExit, KeyboardInterrupt):
            continue
    task.result()
