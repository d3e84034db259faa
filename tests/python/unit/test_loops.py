"""worker/loops.py: the loop of workers, which may be made before a fork and is opened after it."""

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from hitl.worker.loops import WorkerLoop, new_loop, run

ROOT = Path(__file__).parents[3]

FORKS = """
import asyncio, os, sys, threading
from hitl.worker.loops import WorkerLoop, run

loop = WorkerLoop()

async def woken_by_a_thread(number):
    event = asyncio.Event()
    threading.Thread(target=loop.call_soon_threadsafe, args=(event.set,)).start()
    await event.wait()
    os.write(1, b"%d " % number)

children = []
for number in range(3):
    child = os.fork()
    if child == 0:
        loop.open()
        run(loop, woken_by_a_thread(number))
        os._exit(0)
    children.append(child)
    if number == 1:  # one after the other and side by side
        os.waitpid(children.pop(0), 0)
assert [os.waitpid(child, 0)[1] for child in children] == [0, 0]
"""


def descriptors() -> set[str]:
    return {path.name for path in Path("/proc/self/fd").iterdir()}


@pytest.mark.skipif(sys.platform != "linux", reason="descriptors are counted by /proc")
def test_a_loop_has_no_descriptor_before_it_is_open_and_none_after_it_is_closed() -> None:
    before = descriptors()
    loop = WorkerLoop()
    assert descriptors() == before
    loop.open()
    assert len(descriptors()) > len(before)
    asyncio.set_event_loop(None)
    loop.close()
    assert descriptors() == before


def test_a_loop_that_is_not_open_waits_for_nothing_and_can_be_closed() -> None:
    loop = WorkerLoop()
    with pytest.raises(RuntimeError, match="the loop is not open"):
        loop.run_forever()
    loop.close()


@pytest.mark.skipif(sys.platform != "linux", reason="nothing is forked elsewhere")
def test_every_fork_opens_the_loop_that_was_made_before_for_itself() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORKS],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([*filter(None, sys.path), str(ROOT)])},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(done.stdout.split()) == ["0", "1", "2"]


def test_an_agent_cannot_end_it() -> None:
    loop = new_loop()
    outcomes: list[BaseException | None] = []

    async def leave() -> None:
        raise SystemExit(1)

    async def main() -> None:
        task = asyncio.create_task(leave())
        await asyncio.wait([task])
        outcomes.append(task.exception())

    run(loop, main())
    asyncio.set_event_loop(None)
    loop.close()
    assert isinstance(outcomes[0], SystemExit)


def on_a_loop(make: Callable[[WorkerLoop], Coroutine[Any, Any, None]]) -> None:
    """Run ``make(loop)`` on an open loop, which is closed then."""
    loop = new_loop()
    try:
        loop.run_until_complete(make(loop))
    finally:
        asyncio.set_event_loop(None)
        loop.close()


def test_a_task_that_polls_does_not_keep_it_from_what_comes_from_outside() -> None:
    async def main(loop: WorkerLoop) -> None:
        ours, theirs = socket.socketpair()
        heard: list[bytes] = []
        loop.add_reader(ours, lambda: heard.append(ours.recv(1)))
        theirs.send(b"x")
        fired = asyncio.Event()
        loop.call_later(0, fired.set)
        while not (heard and fired.is_set()):
            await asyncio.sleep(0)
        loop.remove_reader(ours)
        ours.close()
        theirs.close()

    on_a_loop(main)


def test_what_is_due_at_the_end_of_a_round_comes_before_the_next_and_before_it_waits() -> None:
    async def main(loop: WorkerLoop) -> None:
        order: list[str] = []

        def first() -> None:
            loop.at_end_of_round(lambda: order.append("end"))
            order.append("first")

        loop.call_soon(first)
        loop.call_soon(order.append, "second")
        loop.call_soon(lambda: loop.call_soon(order.append, "next round"))
        for _ in range(3):
            await asyncio.sleep(0)
        assert order == ["first", "second", "end", "next round"]
        woken = asyncio.Event()
        loop.at_end_of_round(lambda: loop.call_soon(woken.set) and None)
        await woken.wait()  # although nothing else was ready

    on_a_loop(main)
