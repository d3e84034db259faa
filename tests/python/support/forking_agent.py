"""An agent that forks inside of a turn, as its message says, and tells what came of it in both processes."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import hitl
from hitl import ChatMessage

_fork = multiprocessing.get_context("fork")


def _in_child(work: Callable[[], Any]) -> str:
    """What becomes of ``work`` in a process of multiprocessing."""

    def run(to: Connection) -> None:
        try:
            to.send(str(work()))
        except RuntimeError as error:
            to.send(f"{type(error).__name__}: {error}")

    ours, theirs = _fork.Pipe()
    child = _fork.Process(target=run, args=(theirs,))
    child.start()
    said: str = ours.recv()
    child.join()
    return said


async def _step() -> Any:
    return await hitl.step(len, "abc")


def calls() -> str:
    """The child makes a step."""
    return _in_child(lambda: hitl.step.sync(len, "abc"))


def calls_on_a_loop() -> str:
    """The child makes a step on a loop of its own."""
    return _in_child(lambda: asyncio.run(_step()))


def prints() -> str:
    """The child prints."""
    return _in_child(lambda: print("printed by a child", flush=True))


async def raises(where: str = "raises") -> str:
    """The child fails where it should have ended."""
    pid = os.fork()
    if pid == 0:
        raise ValueError(f"of a child: {where}")
    return f"parent: {await asyncio.to_thread(_code_of, pid)}"


async def returns() -> str:
    """The child comes back from the tool."""
    pid = os.fork()
    return "child" if pid == 0 else f"parent: {await asyncio.to_thread(_code_of, pid)}"


async def exits() -> str:
    """The child ends as a program does."""
    pid = os.fork()
    if pid == 0:
        sys.exit(7)
    return f"parent: {await asyncio.to_thread(_code_of, pid)}"


async def awaits() -> str:
    """The child goes on to wait on the loop."""
    pid = os.fork()
    if pid == 0:
        await asyncio.sleep(0)
        return "child"
    return f"parent: {await asyncio.to_thread(_code_of, pid)}"


def raises_in_a_thread() -> str:
    """The child of a plain tool fails."""
    pid = os.fork()
    if pid == 0:
        raise ValueError("of a child: raises_in_a_thread")
    return f"parent: {_code_of(pid)}"


def _code_of(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


TOOLS: dict[str, Callable[[], Any]] = {
    tool.__name__: tool for tool in (calls, calls_on_a_loop, prints, raises, returns, exits, awaits, raises_in_a_thread)
}


async def agent(message: ChatMessage, state: list[ChatMessage]) -> tuple[ChatMessage, list[ChatMessage]]:
    name = message.content or ""
    if name == "raises outside a step":
        said = await raises(name)
    else:
        said = await hitl.step(TOOLS[name])
    reply = ChatMessage.assistant_message(content=said)
    return reply, [*state, message, reply]
