"""What turns of tests talk to, and what they await beside it."""

import asyncio
from asyncio.subprocess import PIPE
from collections.abc import Awaitable, Callable
from typing import Any

from hitl import interrupt
from tests.python.unit.conditions import until

Agent = Callable[[], Awaitable[Any]]


def ask() -> Awaitable[Any]:
    return interrupt({"type": "q"})


class Peer:
    """Something that can be connected to, and answers when it is told to."""

    def __init__(self) -> None:
        self.writers: list[asyncio.StreamWriter] = []
        self.port = 0

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port)

    def close(self) -> None:
        """End the connections."""
        for writer in self.writers:
            writer.close()
        self.writers.clear()

    async def listen(self, heard: list[bytes]) -> None:
        """What a task does that reads for as long as its connection lives."""
        reader, writer = await self.connect()
        try:
            while line := await reader.readline():
                heard.append(line)
        finally:
            writer.close()

    async def read(self) -> None:
        """One request."""
        reader, writer = await self.connect()
        try:
            await reader.readline()
        finally:
            writer.close()

    async def answer(self) -> None:
        await until(lambda: self.writers)
        self.writers[-1].write(b"x\n")


class Children(list[asyncio.subprocess.Process]):
    """Child processes that end when their input does."""

    async def start(self) -> asyncio.subprocess.Process:
        self.append(await asyncio.create_subprocess_exec("cat", stdin=PIPE))
        return self[-1]

    def end_input(self) -> None:
        for child in self:
            assert child.stdin is not None
            child.stdin.close()
