"""Whom the agents of the matrix talk to: lines over TCP, HTTP and a websocket, all on loopback.

What is said is `<word> <text>`, the reply is the text. `echo` replies at once, `slow` after `SLOW_SECONDS`, and `hold`
when the test has released that text; once released it stays so.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self

import websockets
from aiohttp import web

SLOW_SECONDS = 0.5
"""How long `slow` takes: the subject of tests of slow I/O, so it is real time."""


class Peers:
    """Servers on a loop and a thread of their own, from `with` until its end."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="peers")
        self._released: dict[str, asyncio.Event] = {}
        self._arrivals: dict[str, int] = {}
        self._condition = threading.Condition()
        self._stop: asyncio.Event | None = None
        self._serving: asyncio.Task[None] | None = None
        self.ports: dict[str, int] = {}
        """Of `lines`, `http` and `websocket`; goes into the agent's message."""

    def __enter__(self) -> Self:
        self._thread.start()
        self._call(self._start())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._call(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(100)
        self._loop.close()

    # -- what tests say -------------------------------------------------------------------------------------------

    def arrivals(self, text: str) -> int:
        """How many requests to hold that text have come."""
        with self._condition:
            return self._arrivals.get(text, 0)

    def wait_for_arrival(self, text: str, timeout: float) -> None:
        """Return once one has come."""
        with self._condition:
            if not self._condition.wait_for(lambda: self._arrivals.get(text, 0) > 0, timeout):
                raise AssertionError(f"no request to hold {text!r} came in {timeout:g} s")

    def release(self, text: str) -> None:
        """Reply to those who hold, and at once to those who come later."""
        self._loop.call_soon_threadsafe(lambda: self._gate(text).set())

    # -- what agents get ------------------------------------------------------------------------------------------

    async def _reply(self, said: str) -> str:
        word, _, text = said.strip().partition(" ")
        if word == "hold":
            with self._condition:
                self._arrivals[text] = self._arrivals.get(text, 0) + 1
                self._condition.notify_all()
            await self._gate(text).wait()
        elif word == "slow":
            await asyncio.sleep(SLOW_SECONDS)
        return text

    def _gate(self, text: str) -> asyncio.Event:
        return self._released.setdefault(text, asyncio.Event())

    async def _lines(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while said := await reader.readline():
                writer.write(f"{await self._reply(said.decode())}\n".encode())
        except ConnectionError:
            return  # a server or worker was killed: that is what some tests are about
        finally:
            writer.close()

    async def _http(self, request: web.Request) -> web.Response:
        return web.Response(text=await self._reply(request.query["say"]))

    async def _websocket(self, connection: Any) -> None:
        try:
            async for said in connection:
                await connection.send(await self._reply(said))
        except websockets.ConnectionClosed:
            return

    async def _start(self) -> None:
        started = asyncio.Event()
        self._stop = asyncio.Event()
        self._serving = asyncio.create_task(self._serve(started))
        waiter = asyncio.create_task(started.wait())
        await asyncio.wait([self._serving, waiter], return_when=asyncio.FIRST_COMPLETED)
        if self._serving.done():
            await self._serving

    async def _serve(self, started: asyncio.Event) -> None:
        assert self._stop is not None
        application = web.Application()
        application.router.add_get("/", self._http)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=0)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        lines = await asyncio.start_server(self._lines, "127.0.0.1", 0)
        sockets = await websockets.serve(self._websocket, "127.0.0.1", 0, close_timeout=0)
        self.ports = {
            "http": runner.addresses[0][1],
            "lines": lines.sockets[0].getsockname()[1],
            "websocket": next(iter(sockets.sockets)).getsockname()[1],
        }
        started.set()
        await self._stop.wait()
        lines.close()
        sockets.close()
        await runner.cleanup()

    async def _end(self) -> None:
        assert self._stop is not None
        assert self._serving is not None
        for gate in self._released.values():
            gate.set()
        self._stop.set()
        await self._serving
        left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    def _call(self, main: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(main, self._loop).result(100)
