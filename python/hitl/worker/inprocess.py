"""A worker in a thread: serves a live agent object from the program that made it."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import traceback
from contextlib import suppress
from typing import Any

from hitl.driver import output
from hitl.driver.code_version import code_version
from hitl.driver.shapes import as_agent
from hitl.turn.reporting import report
from hitl.worker import loops
from hitl.worker.protocol import Worker


class InProcessWorker:
    """Runs turns of ``agent`` as tasks in a daemon thread with an event loop of its own, in pool mode over ``fd``.

    ``fd`` is a connected Unix stream socket, owned by the worker from ``start()`` on. AgentLoadError when ``agent`` has
    none of the accepted shapes. Usable as a context manager. The end of the stream ends the thread, and nothing else
    of the program.
    """

    def __init__(self, agent: Any, fd: int) -> None:
        self._agent = as_agent(agent)
        self._fd = fd
        self._loop: asyncio.AbstractEventLoop | None = None
        self._worker: Worker | None = None
        self._ready = threading.Event()
        self._abandoning: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=self._main, name="hitl worker", daemon=True)

    def start(self) -> InProcessWorker:
        """Start the thread; RuntimeError the second time."""
        self._thread.start()
        return self

    def stop(self, timeout: float | None = None) -> None:
        """Hear what has been said by now, cancel the turns that are left, and wait, at most ``timeout`` seconds, for
        the thread to end. One that lives on, as code of the agent blocks its loop, is told: nothing can end it but the
        program."""
        if not self._thread.is_alive():
            return
        self._ready.wait()
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop was closed since we looked: the thread is on its way out
                self._loop.call_soon_threadsafe(self._stop)
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout)
            if self._thread.is_alive():
                report("hitl: a turn blocks the event loop of its agent, whose thread goes on until the program ends\n")

    def __enter__(self) -> InProcessWorker:
        return self.start()

    def __exit__(self, *exc_info: object) -> None:
        self.stop()

    def _main(self) -> None:
        output.install()
        loop = loops.new_loop()
        try:
            loops.run(loop, self._serve(loop))
            loop.run_until_complete(loop.shutdown_asyncgens())
        except Exception:  # noqa: BLE001 - a daemon thread has nobody to raise to
            traceback.print_exc()
        finally:
            self._ready.set()
            asyncio.set_event_loop(None)
            loop.close()
            output.uninstall()

    async def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            self._worker = Worker(self._agent, single=False, code=code_version(self._agent), on_lost=self._lost)
        except BaseException:
            os.close(self._fd)  # else the other side would wait for a first word
            raise
        self._loop = loop
        self._ready.set()
        await self._worker.serve(self._fd)
        # Whoever stops us from now on finds nothing to stop; what has begun is seen to its end before the loop closes.
        self._worker = None
        if self._abandoning is not None:
            await self._abandoning

    def _lost(self, error: Exception | None) -> None:
        # A server that goes while something is unread resets the channel; one that could not start says why itself.
        if error is not None and not isinstance(error, ConnectionError):
            sys.stderr.write(f"hitl worker: {type(error).__name__}: {error}\n")
        self._abandon()

    def _stop(self) -> None:
        if self._worker is not None:
            self._worker.hear_rest()
        self._abandon()

    def _abandon(self) -> None:
        if self._worker is not None and self._abandoning is None:
            self._abandoning = asyncio.get_running_loop().create_task(self._worker.abandon())
