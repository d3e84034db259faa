"""What is between a server and its database, for tests that take it away."""

from __future__ import annotations

import asyncio
import ssl
import threading
from pathlib import Path
from types import TracebackType
from typing import Self


class Proxy:
    """Listens on a port and passes on to a Unix socket, until it holds everything back.

    With `tls` it is the encrypted end of a PostgreSQL: the one of the tests is built without.
    """

    def __init__(self, socket: Path, tls: ssl.SSLContext | None = None) -> None:
        self._socket = socket
        self._tls = tls
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._flows = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        self.port: int = asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(60)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(60)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(60)
        self._loop.close()

    def hold(self) -> None:
        """Accept, and pass nothing on in either direction."""
        self._loop.call_soon_threadsafe(self._flows.clear)

    def release(self) -> None:
        """Pass on everything again, also what was held back."""
        self._loop.call_soon_threadsafe(self._flows.set)

    async def _start(self) -> int:
        self._flows.set()
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def _end(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            if self._tls is not None:
                await reader.readexactly(8)  # the wish for encryption
                writer.write(b"S")
                await writer.start_tls(self._tls)
            there, back = await asyncio.open_unix_connection(self._socket)
            try:
                async with asyncio.TaskGroup() as both:
                    both.create_task(self._pass_on(reader, back))
                    both.create_task(self._pass_on(there, writer))
            finally:
                back.close()
        except* (OSError, asyncio.IncompleteReadError):
            pass  # either side has gone, or would not be encrypted
        finally:
            writer.close()
            self._tasks.discard(task)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            await self._flows.wait()
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
        else:
            writer.close()
