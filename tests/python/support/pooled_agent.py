"""An agent whose tools need a pool, which notes in FOLDER/log where and when it is opened and closed.

Its model is the puppet's: the message lists the calls. While FOLDER/away is there the pool cannot be opened.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated, Any

import hitl
from hitl import ReActAgent, RunContext, TurnRequest, tool
from tests.python.support.puppet import PuppetModel

FOLDER = Path(os.environ.get("FOLDER", "."))


def note(what: str) -> None:
    with (FOLDER / "log").open("a") as log:
        log.write(f"{what} {os.getpid()}\n")


class Pool:
    """Of one process."""

    def __init__(self) -> None:
        self.pid = os.getpid()

    def use(self, what: str) -> str:
        assert self.pid == os.getpid(), "a pool that was opened before the fork"
        note(what)
        return what


@hitl.resources
async def pool() -> AsyncIterator[Pool]:
    if (FOLDER / "away").exists():
        note("refused")
        raise ConnectionRefusedError("nobody listens")
    opened = Pool()
    note("open")
    yield opened
    note("close")


PoolParameter = Annotated[Pool, hitl.Resource]


@tool
async def look_up(what: str, pool: PoolParameter) -> str:
    """Look something up."""
    return pool.use(f"look_up {what}")


@tool
def look_up_in_thread(pool: PoolParameter, what: str) -> str:
    """The same, in a thread."""
    return pool.use(f"look_up {what}")


@tool(requires_approval=True)
async def pay(cents: int, ctx: RunContext[dict[str, Any], Pool]) -> str:
    """Pay; asked about first."""
    return ctx.resources.use(f"pay {cents}")


@tool
async def look_up_and_ask(what: str, pool: PoolParameter) -> str:
    """Ask while it runs."""
    pool.use(f"look_up {what}")
    answer = await hitl.interrupt({"type": "question", "prompt": what})
    return pool.use(f"heard {answer}")


@tool
async def ask() -> str:
    """Needs no pool."""
    return str(await hitl.interrupt({"type": "question", "prompt": "So?"}))


@tool
async def who(ctx: RunContext[dict[str, Any], None]) -> dict[str, Any]:
    """The context; needs no pool."""
    return ctx.context


def context_from(request: TurnRequest) -> dict[str, Any]:
    note("context_from")
    seen = {"session": request.session_id, "sent": request.user_params, "by": request.sent_by}
    return {**seen, "seen": sorted(vars(request))}


agent = ReActAgent(
    name="pooled",
    client=PuppetModel(),
    model_name="none",
    tools=[look_up, look_up_in_thread, look_up_and_ask, pay, ask, who],
    resources=pool,
    context_from=context_from,
)
