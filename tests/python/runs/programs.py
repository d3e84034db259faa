"""Programs that tests run in processes of their own. ``python -m tests.python.runs.programs NAME ARGUMENTS``."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import hitl
from hitl import ChatMessage, RunState
from tests.python.runs.support import Files


async def _echo(message: ChatMessage, state: list[ChatMessage]) -> tuple[ChatMessage, list[ChatMessage]]:
    return ChatMessage.assistant_message(content=f"you said {message.content}"), [*state, message]


def once() -> None:
    """Await one run, and exit as a script does."""

    async def main() -> None:
        print((await hitl.run(_echo, "hello")).output)

    asyncio.run(main())


def in_flight(how: str) -> None:
    """Exit with a run in flight: it is ``cancelled`` first, or the loop is never closed (``hard``)."""

    async def slow(message: ChatMessage, state: list[ChatMessage]) -> tuple[ChatMessage, list[ChatMessage]]:
        await hitl.step(asyncio.sleep, 60)
        return message, state

    loop = asyncio.new_event_loop()
    task = loop.create_task(hitl.run(slow, "hello"))
    loop.run_until_complete(asyncio.sleep(0.2))
    print("left", not task.done(), flush=True)
    if how == "hard":
        os._exit(0)
    task.cancel()
    loop.run_until_complete(asyncio.wait([task]))
    loop.close()


def forks() -> None:
    """Use hitl, fork, and use it again in both."""
    print(hitl.run_sync(_echo, "one").output, flush=True)
    if os.fork() == 0:
        try:
            asyncio.run(_run_again())
        except RuntimeError as error:
            print(f"child: {error}", flush=True)
        os._exit(0)
    os.wait()
    print(hitl.run_sync(_echo, "two").output, flush=True)


async def _run_again() -> None:
    await hitl.run(_echo, "in the child")


def pause(folder: str) -> None:
    """The first of three processes: run until somebody is asked."""
    result = hitl.run_sync(Files(Path(folder)).agent("a", "b"), "clean up")
    assert result.state is not None
    (Path(folder) / "state.json").write_text(result.state.to_string())


def decide(folder: str) -> None:
    """The second: decide."""
    file = Path(folder) / "state.json"
    state = RunState.from_string(Files(Path(folder)).agent("a", "b"), file.read_text())
    first, second = state.interrupts
    file.write_text(state.approve(first).reject(second, reason="in use").to_string())


def resume(folder: str, edited: str = "") -> None:
    """The third: go on. ``edited``: with code that was changed since, ``compatibly`` or ``incompatibly``."""
    files = Files(Path(folder))
    paths = ("c", "b") if edited == "incompatibly" else ("a", "b")
    more = {"system_prompt": "Be brief."} if edited == "compatibly" else {}
    agent = files.agent(*paths, **more)
    if edited == "incompatibly":

        @hitl.agent(name="ReActAgent")
        async def other(message: ChatMessage, state: list[ChatMessage]) -> tuple[ChatMessage, list[ChatMessage]]:
            await hitl.step(asyncio.sleep, 0)
            return await agent.run_turn(message, state)

        agent = other  # type: ignore[assignment]
    result = hitl.run_sync(agent, RunState.from_string(agent, (Path(folder) / "state.json").read_text()))
    print(result.status, result.error_code, result.output, result.state is not None, files.deleted)


if __name__ == "__main__":
    {"once": once, "in_flight": in_flight, "forks": forks, "pause": pause, "decide": decide, "resume": resume}[
        sys.argv[1]
    ](*sys.argv[2:])
