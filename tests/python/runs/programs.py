"""Programs that tests run in processes of their own. ``python -m tests.python.runs.programs NAME ARGUMENTS``."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import hitl
from hitl import ChatMessage, RunState
from tests.python.runs.support import Files
from tests.python.support import forking_agent
from tests.python.support.api import Api


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


def forks_with_a_store_in_memory() -> None:
    """Make a store, as an agent's module does, and use it in a process that is forked from this one."""
    store = hitl.Store()
    if os.fork() == 0:
        print(hitl.run_sync(_echo, "one", store=store, session="s").output, flush=True)
        os._exit(0)
    os.wait()
    print(hitl.run_sync(_echo, "two", store=store, session="s").output, flush=True)


async def _run_again() -> None:
    await hitl.run(_echo, "in the child")


def forks_beside_a_thread(how: str, store: str) -> None:
    """Use hitl in a thread that then waits for more, as those of a web server do; fork; use it there again."""

    @hitl.resources
    async def connection() -> AsyncIterator[str]:
        try:
            yield "opened"
        finally:
            print(f"closed by {'the program' if os.getpid() == owner else 'a child'}", flush=True)

    async def agent(message: ChatMessage, state: list[ChatMessage]) -> tuple[ChatMessage, list[ChatMessage]]:
        return ChatMessage.assistant_message(content=str(await hitl.step(_opened, connection))), state

    def handle(message: str) -> None:
        print(hitl.run_sync(agent, message, resources=connection, store=store).output, flush=True)

    owner = os.getpid()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(handle, "one").result()
        if how == "multiprocessing":
            child = multiprocessing.get_context("fork").Process(target=print, args=("child",), kwargs={"flush": True})
            child.start()
            child.join()
        elif how == "subprocess":
            subprocess.run(["echo", "child"], check=True, preexec_fn=lambda: None)
        elif (pid := os.fork()) == 0:
            print("child", flush=True)
            sys.exit()  # its exit hooks run
        else:
            os.waitpid(pid, 0)
        pool.submit(handle, "two").result()


async def _opened(connection: hitl.Resources[str]) -> str:
    await connection.open()
    return connection.value


def child_exits(store: str) -> None:
    """Use hitl, fork a child that exits as a program does, and use it again."""
    print(hitl.run_sync(_threaded, "one", store=store).output, flush=True)
    if (pid := os.fork()) == 0:
        sys.exit()
    os.waitpid(pid, 0)
    print(hitl.run_sync(_threaded, "two", store=store).output, flush=True)


def child_leaves_its_loop(store: str) -> None:
    """Fork inside of a loop; the child leaves that as an exception does."""

    async def main() -> None:
        print((await hitl.run(_threaded, "one", store=store)).output, flush=True)
        if (pid := os.fork()) == 0:
            sys.exit()
        os.waitpid(pid, 0)  # noqa: ASYNC222 - nothing else runs here
        print((await hitl.run(_threaded, "two", store=store)).output, flush=True)

    asyncio.run(main())


def forks_inside(what: str, how: str) -> None:
    """An agent forks inside of a turn."""
    if how == "run":
        print(hitl.run_sync(forking_agent.agent, what).output, flush=True)
        return
    with hitl.Server(forking_agent.agent, port=0, store="memory") as server, closing(Api(server.url)) as api:
        session_id = api.create()
        api.send(session_id, what)
        print(api.wait(session_id)["response"]["content"], flush=True)


async def _threaded(message: ChatMessage, state: list[ChatMessage]) -> tuple[ChatMessage, list[ChatMessage]]:
    await hitl.step(len, "x")  # a plain function: a thread wakes the loop
    return await _echo(message, state)


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


FORKING = (forks, forks_with_a_store_in_memory, forks_beside_a_thread, child_exits, child_leaves_its_loop, forks_inside)
PROGRAMS = (once, in_flight, *FORKING, pause, decide, resume)

if __name__ == "__main__":
    {program.__name__: program for program in PROGRAMS}[sys.argv[1]](*sys.argv[2:])
