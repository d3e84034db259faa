"""An agent whose tools need a pool, which notes in FOLDER/log where and when it is opened and closed.

Its model is the puppet's: the message lists the calls. While FOLDER/away is there the pool cannot be opened; while
FOLDER/hangs or FOLDER/fails is there, so does its end.
"""

from __future__ import annotations

import asyncio
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


class Connection(asyncio.Protocol):
    """To the peer, which ends it."""

    def __init__(self) -> None:
        self.lost = asyncio.Event()

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set()


class Pool:
    """Of one process."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self._connection: tuple[asyncio.Transport, Connection] | None = None

    async def connect(self) -> None:
        """Connect to FOLDER/peer; in the context of whoever wants that first, as pools do."""
        loop = asyncio.get_running_loop()
        self._connection = await loop.create_unix_connection(Connection, str(FOLDER / "peer"))
        self._connection[0].write(b"hello\n")

    async def close(self) -> None:
        """Say goodbye, and wait until the peer has heard it."""
        if (FOLDER / "hangs").exists():
            await asyncio.Event().wait()
        if (FOLDER / "fails").exists():
            raise OSError("amqp://ada:secret@broker is gone")
        if self._connection is not None:
            transport, connection = self._connection
            transport.write(b"goodbye\n")
            await connection.lost.wait()

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
    note("closing")
    await opened.close()
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
async def connect_and_ask(pool: PoolParameter) -> str:
    """Ask while a connection is open, in a block that is left with a note."""
    await pool.connect()
    try:
        return str(await hitl.interrupt({"type": "question", "prompt": "So?"}))
    finally:
        note("left")


@tool
def look_up_and_ask_in_thread(pool: PoolParameter) -> str:
    """Ask in a thread."""
    pool.use("look_up in thread")
    try:
        return str(hitl.interrupt.sync({"type": "question", "prompt": "So?"}))
    finally:
        note("left")


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
    tools=[look_up, look_up_in_thread, look_up_and_ask, connect_and_ask, look_up_and_ask_in_thread, pay, ask, who],
    resources=pool,
    context_from=context_from,
)
