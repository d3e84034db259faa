"""What is between a server and its database, for tests that take it away."""

from __future__ import annotations

import asyncio
import random
import ssl
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.python.cluster.transactions import Outcome, Replies, Requests, Transaction


class Proxy:
    """Listens on a port and passes on to a Unix socket, until it holds everything back, cuts or loses a reply.

    With `tls` it is the encrypted end of a PostgreSQL: the one of the tests is built without.
    """

    def __init__(self, socket: Path, tls: ssl.SSLContext | None = None) -> None:
        self.socket = socket
        """Where it passes on to; it may be another one for the connections to come."""
        self.lost: list[bytes] = []
        """What was committed without a word of it, as `lose_reply` was told."""
        self._losing: set[bytes] = set()
        self._cuts = False
        self._chance = random.Random()
        self._lost_share = 0.0
        self._tls = tls
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._requests = asyncio.Event()
        self._replies = asyncio.Event()
        self._is_cut = False
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

    def hold(self, *, requests: bool = True, replies: bool = True) -> None:
        """Accept, and pass nothing on; in one direction alone where the other is not to be held."""
        if requests:
            self._loop.call_soon_threadsafe(self._requests.clear)
        if replies:
            self._loop.call_soon_threadsafe(self._replies.clear)

    def cut(self) -> None:
        """End every connection, and each that comes."""

        self._loop.call_soon_threadsafe(self._cut)

    def release(self) -> None:
        """Pass on everything again, also what was held back, and lose no more."""

        def release() -> None:
            self._is_cut = False
            self._lost_share = 0.0
            self._losing.clear()
            self._requests.set()
            self._replies.set()

        self._do(release)

    def lose_reply(self, about: bytes, *, and_cut: bool = False) -> None:
        """Of the next transaction that writes something with `about` in it: it commits, and its connection is cut.

        With `and_cut` all are, so that its server cannot look for what came of it.
        """

        def lose() -> None:
            self._losing.add(about)
            self._cuts = and_cut

        self._do(lose)

    def lose_replies(self, share: float, seed: int) -> None:
        """The same for this share of all that write anything but a beat."""

        def lose() -> None:
            self._chance = random.Random(seed)
            self._lost_share = share

        self._do(lose)

    def _cut(self) -> None:
        self._is_cut = True
        for task in self._tasks:
            task.cancel()

    def _do(self, work: Callable[[], None]) -> None:
        """It is done when this returns."""

        async def now() -> None:
            work()

        asyncio.run_coroutine_threadsafe(now(), self._loop).result(60)

    async def _start(self) -> int:
        self._requests.set()
        self._replies.set()
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
            if self._is_cut:
                return
            if self._tls is not None:
                await reader.readexactly(8)  # the wish for encryption
                writer.write(b"S")
                await writer.start_tls(self._tls)
            there, back = await asyncio.open_unix_connection(self.socket)
            connection = _Connection()
            try:
                async with asyncio.TaskGroup() as both:
                    both.create_task(self._pass_requests(connection, reader, back))
                    both.create_task(self._pass_replies(connection, there, writer))
            finally:
                back.close()
        except* (OSError, asyncio.IncompleteReadError):
            pass  # either side has gone, or would not be encrypted
        except* asyncio.CancelledError:
            pass  # cut
        finally:
            self._tasks.discard(task)
            if self._is_cut or task.cancelling():
                writer.transport.abort()
            else:
                writer.close()

    async def _pass_requests(
        self, connection: _Connection, reader: asyncio.StreamReader, back: asyncio.StreamWriter
    ) -> None:
        while data := await reader.read(65536):
            for transaction in connection.requests.take(data):
                connection.losing = connection.losing or self._is_to_be_lost(transaction)
            await self._requests.wait()
            back.write(data)
            await back.drain()
        back.write_eof()

    async def _pass_replies(
        self, connection: _Connection, there: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        while data := await there.read(65536):
            await self._replies.wait()
            outcomes = list(connection.replies.take(data))
            if connection.losing is not None:
                connection.kept += data
                if not outcomes:
                    continue
                if outcomes[-1] is Outcome.COMMITTED and self._is_lost(connection.losing):
                    raise ConnectionResetError
                # It has changed nothing, or another one was first: the next may be it.
                data, connection.kept, connection.losing = connection.kept, b"", None
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
        else:
            writer.close()

    def _is_to_be_lost(self, transaction: Transaction) -> bytes | None:
        """What it is about, where its reply is to be lost; nothing in particular is b""."""
        if not transaction.writes:
            return None
        about = next((about for about in self._losing if about in transaction.text), None)
        if about is None and self._lost_share and not transaction.is_beat:
            return b"" if self._chance.random() < self._lost_share else None
        return about

    def _is_lost(self, about: bytes) -> bool:
        if about and about not in self._losing:
            return False
        self._losing.discard(about)
        self.lost.append(about)
        if about and self._cuts:
            self._cut()
        return True


class _Connection:
    """One of a server to its database."""

    def __init__(self) -> None:
        self.requests = Requests()
        self.replies = Replies()
        self.losing: bytes | None = None
        """What the transaction is about whose reply is to be lost."""
        self.kept = b""
        """What the database has said of it so far."""
