"""What an agent of the matrix uses before its question, and keeps while it waits.

Each is a context: it has used its library once when it is entered, keeps what people keep (a pool, a connection, a
reader task), and gives a function that sends the peer a request, through the same library, for work in flight.

What a parked turn leaves behind is ended by plain calls in `finally`: nothing can be awaited there.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import Any

import aiohttp
import aiosqlite
import anyio
import anyio.to_thread
import httpx2
import websockets

from hitl import step
from tests.python.waiting.ledger import Cell

Request = Callable[[str], Awaitable[str]]
"""Says `<word> <text>` to the peer, returns its reply."""

HOST = "127.0.0.1"

# A child process that asks the peer and prints its reply.
_CLIENT = (
    "import socket, sys\n"
    "with socket.create_connection(('127.0.0.1', int(sys.argv[1]))) as peer, peer.makefile('rw') as lines:\n"
    "    print(sys.argv[2], file=lines, flush=True)\n"
    "    print(lines.readline().strip())\n"
)


@asynccontextmanager
async def nothing(cell: Cell) -> AsyncIterator[Request]:
    async def request(said: str) -> str:
        reader, writer = await asyncio.open_connection(HOST, cell.ports["lines"])
        try:
            writer.write(f"{said}\n".encode())
            return (await reader.readline()).decode().strip()
        finally:
            writer.close()

    yield request


@asynccontextmanager
async def to_thread(cell: Cell) -> AsyncIterator[Request]:
    async def request(said: str) -> str:
        return await asyncio.to_thread(_blocking, cell, said)

    await request("echo before")
    yield request


@asynccontextmanager
async def executor(cell: Cell) -> AsyncIterator[Request]:
    pool = ThreadPoolExecutor(1)
    try:

        async def request(said: str) -> str:
            return await asyncio.get_running_loop().run_in_executor(pool, _blocking, cell, said)

        await request("echo before")
        yield request
    finally:
        pool.shutdown(wait=False)


@asynccontextmanager
async def anyio_thread(cell: Cell) -> AsyncIterator[Request]:
    async def request(said: str) -> str:
        return await anyio.to_thread.run_sync(_blocking, cell, said)

    await request("echo before")
    yield request


@asynccontextmanager
async def sqlite(cell: Cell) -> AsyncIterator[Request]:
    connection = await aiosqlite.connect(":memory:")
    try:
        await connection.create_function("say", 1, lambda said: _blocking(cell, said))

        async def request(said: str) -> str:
            async with connection.execute("SELECT say(?)", (said,)) as cursor:
                row = await cursor.fetchone()
            assert row is not None
            return str(row[0])

        await request("echo before")
        yield request
    except BaseException:
        connection.stop()
        raise
    await connection.close()


@asynccontextmanager
async def sock_recv(cell: Cell) -> AsyncIterator[Request]:
    loop = asyncio.get_running_loop()
    with socket.socket() as sock:
        sock.setblocking(False)
        await loop.sock_connect(sock, (HOST, cell.ports["lines"]))

        async def request(said: str) -> str:
            await loop.sock_sendall(sock, f"{said}\n".encode())
            return (await loop.sock_recv(sock, 100)).decode().strip()

        await request("echo before")
        yield request


@asynccontextmanager
async def open_connection(cell: Cell) -> AsyncIterator[Request]:
    reader, writer = await asyncio.open_connection(HOST, cell.ports["lines"])
    try:

        async def request(said: str) -> str:
            writer.write(f"{said}\n".encode())
            return (await reader.readline()).decode().strip()

        await request("echo before")
        yield request
    finally:
        writer.close()


@asynccontextmanager
async def aiohttp_session(cell: Cell) -> AsyncIterator[Request]:
    async with aiohttp.ClientSession() as session:

        async def request(said: str) -> str:
            async with session.get(_url(cell), params={"say": said}) as response:
                return await response.text()

        await request("echo before")
        yield request


@asynccontextmanager
async def websocket(cell: Cell) -> AsyncIterator[Request]:
    async with websockets.connect(f"ws://{HOST}:{cell.ports['websocket']}", close_timeout=0, proxy=None) as connection:
        inbox: asyncio.Queue[str] = asyncio.Queue()

        async def read() -> None:
            async for text in connection:
                await inbox.put(str(text))

        async def request(said: str) -> str:
            await connection.send(said)
            return await inbox.get()

        with _beside(read):
            await request("echo before")
            yield request


class _Waiters(asyncio.Protocol):
    """Replies come in the order of the requests; each is a future of its own."""

    def __init__(self) -> None:
        self._waiters: list[asyncio.Future[str]] = []
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        for line in data.decode().splitlines():
            waiter = self._waiters.pop(0)
            if not waiter.done():
                waiter.set_result(line)

    async def request(self, said: str) -> str:
        waiter: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        self._transport.write(f"{said}\n".encode())
        return await waiter


@asynccontextmanager
async def protocol(cell: Cell) -> AsyncIterator[Request]:
    transport, waiters = await asyncio.get_running_loop().create_connection(_Waiters, HOST, cell.ports["lines"])
    try:
        await waiters.request("echo before")
        yield waiters.request
    finally:
        transport.close()


async def _child(cell: Cell, said: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-ISc", _CLIENT, str(cell.ports["lines"]), said, stdout=asyncio.subprocess.PIPE
    )


async def _by_child(cell: Cell, said: str) -> str:
    process = await _child(cell, said)
    output, _ = await process.communicate()
    return output.decode().strip()


@asynccontextmanager
async def child_ended(cell: Cell) -> AsyncIterator[Request]:
    """Its output was read to the end, and only after the question somebody asks how it ended."""
    process = await _child(cell, "echo before")
    assert process.stdout is not None
    await process.stdout.read()
    yield lambda said: _by_child(cell, said)
    assert await process.wait() == 0


@asynccontextmanager
async def child_awaited(cell: Cell) -> AsyncIterator[Request]:
    """A step awaits it while the question is open: work in flight, until the test releases it."""

    async def await_child() -> str:
        return await cell.in_flight("child", lambda: _by_child(cell, f"hold {cell.name} child"))

    async def at_work() -> str:
        return await step(await_child)

    work = asyncio.create_task(at_work())
    yield lambda said: _by_child(cell, said)
    assert await work == f"{cell.name} child"


@asynccontextmanager
async def child_running(cell: Cell) -> AsyncIterator[Request]:
    """Nobody awaits it. It ends with its input: also when this process is killed."""
    process = await asyncio.create_subprocess_exec(
        "cat", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.DEVNULL
    )
    try:
        yield lambda said: _by_child(cell, said)
    except BaseException:
        process.kill()
        raise
    process.kill()
    # Else the loop may be closed before it has heard of that, and another test is blamed for what was left open.
    await process.wait()


@asynccontextmanager
async def anyio_group(cell: Cell) -> AsyncIterator[Request]:
    """A task of it waits until the question is answered; requests go through a stream of anyio's."""
    answered = anyio.Event()
    async with await anyio.connect_tcp(HOST, cell.ports["lines"]) as stream, anyio.create_task_group() as group:

        async def request(said: str) -> str:
            await stream.send(f"{said}\n".encode())
            return (await stream.receive()).decode().strip()

        await request("echo before")
        group.start_soon(answered.wait)
        yield request
        answered.set()


@asynccontextmanager
async def httpx_client(cell: Cell) -> AsyncIterator[Request]:
    async with httpx2.AsyncClient(trust_env=False, verify=False, timeout=None) as client:

        async def request(said: str) -> str:
            return (await client.get(_url(cell), params={"say": said})).text

        await request("echo before")
        yield request


def _url(cell: Cell) -> str:
    return f"http://{HOST}:{cell.ports['http']}/"


def _blocking(cell: Cell, said: str) -> str:
    with socket.create_connection((HOST, cell.ports["lines"])) as peer:
        peer.sendall(f"{said}\n".encode())
        return peer.makefile().readline().strip()


@contextmanager
def _beside(work: Callable[[], Any]) -> Any:
    task = asyncio.create_task(work())
    try:
        yield
    finally:
        task.cancel()


BEFORES: dict[str, Callable[[Cell], AbstractAsyncContextManager[Request]]] = {
    "nothing": nothing,
    "to_thread": to_thread,
    "executor": executor,
    "anyio.to_thread": anyio_thread,
    "aiosqlite": sqlite,
    "sock_recv": sock_recv,
    "open_connection": open_connection,
    "aiohttp": aiohttp_session,
    "websocket": websocket,
    "protocol": protocol,
    "child ended": child_ended,
    "child awaited": child_awaited,
    "child running": child_running,
    "anyio group": anyio_group,
    "httpx2": httpx_client,
}
"""The first axis."""

READ_FOR_EVER = ("websocket",)
"""Those of which a task reads for as long as it lives, and nothing tells whether anybody waits for that."""
