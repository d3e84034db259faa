"""What the tests of workers start, and the loops that tests run on."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress

import pytest
import uvloop

from tests.python.unit.conditions import rounds
from tests.python.unit.peers import Children, Peer
from tests.python.unit.worker_process import Child


@pytest.fixture
def child() -> Iterator[Callable[..., Child]]:
    """Starts a worker process and takes its hello."""
    started: list[Child] = []

    def start(agent: str, mode: str = "turn") -> Child:
        started.append(Child(agent, mode))
        started[-1].expect("hello")
        return started[-1]

    yield start
    for each in started:
        each.__exit__()


@pytest.fixture
async def peer() -> AsyncIterator[Peer]:
    peer = Peer()
    server = await asyncio.start_server(lambda _, writer: peer.writers.append(writer), "127.0.0.1")
    peer.port = server.sockets[0].getsockname()[1]
    yield peer
    peer.close()
    server.close()
    await rounds()  # until what was closed is gone


@pytest.fixture
async def children() -> AsyncIterator[Children]:
    """None is left when the test has ended, however it did: uvloop would wait for it for ever when it is closed."""
    children = Children()
    yield children
    for child in children:
        if child.returncode is None:
            with suppress(ProcessLookupError):
                child.kill()
            await child.wait()


def pytest_asyncio_loop_factories(item: pytest.Item) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Tests marked ``on_every_loop`` run on asyncio's own loop and on uvloop."""
    loops: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {"asyncio": asyncio.new_event_loop}
    if item.get_closest_marker("on_every_loop") is not None:
        loops["uvloop"] = uvloop.new_event_loop
    return loops
