"""Turns that crash and run again, for tests of the runtime."""

from collections.abc import Awaitable, Callable
from typing import Any

from tests.python.support.local import Answers, Journal, LocalTurn

Agent = Callable[..., Awaitable[Any]]


async def recorded(agent: Agent, answers: Answers | None = None) -> LocalTurn:
    """A turn that has run to its end."""
    local = LocalTurn(answers)
    await local.run(agent)
    await local.end()
    return local


async def replayed(agent: Agent, journal: Journal, answers: Answers | None = None) -> tuple[Any, LocalTurn]:
    """What the agent returns when it runs again from a journal, and its turn."""
    local = LocalTurn(answers, journal=journal)
    value = await local.run(agent)
    await local.end()
    return value, local


def entries(local: LocalTurn) -> list[str]:
    """The kinds of a turn's entries, each with its path where it has one."""
    return [" ".join(filter(None, [entry["entry"], _path(entry)])) for entry in local.port.journal]


def _path(entry: dict[str, Any]) -> str:
    return str(entry["step"]["path"] if "step" in entry else entry.get("path", ""))
