"""Waiting for what has no event of its own."""

import asyncio
from collections.abc import Callable

from tests.python.support.local import LocalTurn

LONG = 100.0
"""Seconds that nothing takes, however busy the machine is: what is not there by then does not come."""


async def until(condition: Callable[[], object]) -> None:
    """Let the loop go round until the condition holds; TimeoutError after `LONG`."""
    async with asyncio.timeout(LONG):
        while not condition():
            await asyncio.sleep(0)


async def rounds(count: int = 50) -> None:
    """Let the loop go round often enough for everything that is ready to have run."""
    for _ in range(count):
        await asyncio.sleep(0)


async def until_waiting(local: LocalTurn, times: int = 1) -> None:
    """Until the turn has said that often that it awaits nothing but people and timers."""
    await until(lambda: local.port.waits >= times)
