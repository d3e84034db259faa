"""Clients that mean no good, in one process that is cheap for the machine: `python -m tests.python.faults.hostile`.

Arguments: the server's URL, a key with the scope `read`, how many clients. They are at it between the lines `go` and
`rest` of standard input, and gone at an empty one; then one line of JSON says how often each kind came.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import socket
import struct
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

LARGE = 256 * 1024
"""Bytes: more than the server takes as a body."""


@dataclass
class Enemy:
    """One client, at an address that is not that of honest ones."""

    host: str
    port: int
    key: str
    number: int
    random: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.random = random.Random(self.number)

    def head(self, line: str, *more: str) -> bytes:
        lines = [f"{line} HTTP/1.1", f"Host: {self.host}:{self.port}", f"Authorization: Bearer {self.key}", *more]
        return "\r\n".join([*lines, "", ""]).encode()

    async def connect(self, room: int | None = None) -> socket.socket:
        """A connection from an address of its own; with so little `room` for what comes back."""
        connection = socket.socket()
        connection.setblocking(False)
        if room is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
        connection.bind((f"127.0.1.{self.number % 200 + 1}", 0))
        await asyncio.get_running_loop().sock_connect(connection, (self.host, self.port))
        return connection


async def send(connection: socket.socket, content: bytes) -> None:
    await asyncio.get_running_loop().sock_sendall(connection, content)


async def read_all(connection: socket.socket) -> None:
    while await asyncio.get_running_loop().sock_recv(connection, 65_536):
        pass


async def trickle(connection: socket.socket, content: bytes) -> None:
    for byte in content:
        await send(connection, bytes([byte]))
        await asyncio.sleep(0.5)


async def slow_head(enemy: Enemy) -> None:
    with await enemy.connect() as connection:
        await trickle(connection, enemy.head("GET /sessions")[:20])


async def slow_body(enemy: Enemy) -> None:
    with await enemy.connect() as connection:
        await send(connection, enemy.head("POST /sign-in", "Content-Type: application/json", "Content-Length: 5000"))
        await trickle(connection, b'{"key": "aaaaaaaaaaa')


async def huge_body(enemy: Enemy) -> None:
    with await enemy.connect() as connection:
        kind = "Content-Type: application/json"
        await send(connection, enemy.head("POST /sign-in", kind, f"Content-Length: {LARGE}", "Connection: close"))
        await send(connection, b"x" * LARGE)
        await read_all(connection)


async def never_read(enemy: Enemy) -> None:
    with await enemy.connect(room=4096) as connection:
        path = enemy.random.choice(["/openapi.json", "/events", "/ui/inbox.js"])
        await send(connection, enemy.head(f"GET {path}") * 5)
        await asyncio.sleep(5)


async def hang_up(enemy: Enemy) -> None:
    with await enemy.connect() as connection:
        await send(connection, enemy.head(f"GET /interrupts?q=nothing-{enemy.number}"))
        # With a reset.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


async def wrong_key(enemy: Enemy) -> None:
    with await enemy.connect() as connection:
        head = enemy.head("GET /sessions", "Connection: close")
        await send(connection, head.replace(enemy.key.encode(), b"hitl_" + enemy.random.randbytes(20).hex().encode()))
        await read_all(connection)


async def garbage(enemy: Enemy) -> None:
    with await enemy.connect() as connection:
        await send(connection, enemy.random.randbytes(300) + b"\r\n\r\n")
        await read_all(connection)


async def pipeline(enemy: Enemy) -> None:
    with await enemy.connect() as connection:
        await send(connection, enemy.head("GET /me") * 5 + enemy.head("GET /me", "Connection: close"))
        await read_all(connection)


async def half_open(enemy: Enemy) -> None:
    with await enemy.connect() as connection:
        await send(connection, b"GET /sess")
        connection.shutdown(socket.SHUT_WR)
        await asyncio.sleep(3)


KINDS: tuple[Callable[[Enemy], Awaitable[None]], ...] = (
    slow_head,
    slow_body,
    huge_body,
    never_read,
    hang_up,
    wrong_key,
    garbage,
    pipeline,
    half_open,
)


async def haunt(enemy: Enemy, at_it: asyncio.Event, came: Counter[str]) -> None:
    while True:
        await at_it.wait()
        kind = KINDS[enemy.number % len(KINDS)]
        # Being cut off is what such clients are there for.
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(20):
                await kind(enemy)
        came[kind.__name__] += 1
        await asyncio.sleep(enemy.random.uniform(2, 6))


async def main(url: str, key: str, count: int) -> None:
    address = urlsplit(url)
    assert address.hostname is not None
    assert address.port is not None
    at_it, came = asyncio.Event(), Counter[str]()
    enemies = [Enemy(address.hostname, address.port, key, number) for number in range(count)]
    tasks = [asyncio.ensure_future(haunt(enemy, at_it, came)) for enemy in enemies]
    loop = asyncio.get_running_loop()
    while line := (await loop.run_in_executor(None, sys.stdin.readline)).strip():
        if line == "go":
            at_it.set()
        else:
            at_it.clear()
    for task in tasks:
        task.cancel()
    for ended in await asyncio.gather(*tasks, return_exceptions=True):
        assert isinstance(ended, asyncio.CancelledError), ended
    print(json.dumps(came), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
