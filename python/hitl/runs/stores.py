"""``Store``: where runs are kept."""

from __future__ import annotations

import asyncio
import os
import threading
import uuid
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any

from hitl import _core
from hitl.journal.error_codec import without_passwords
from hitl.runs.loop import LoopRuns
from hitl.runs.thread_loop import block_on, refuse_on_a_loop


class Store:
    """A store that stays open between runs: ``sqlite:PATH``, a path, ``postgresql://...``, or ``memory``.

    Opened at its first use; ``async with`` or ``close()`` closes it, where no loop runs ``with`` or ``close_sync()``.
    Usable from several loops and threads, and beside other processes that run agents on the same store; a server has
    its store for itself. StoreError, from the first run, for one that cannot be opened; ValueError once it is closed.

    Example:
        async with hitl.Store("sqlite:runs.db") as store:
            result = await hitl.run(agent, "hello", store=store, session="customer 7")
    """

    def __init__(self, address: str | os.PathLike[str] = "memory") -> None:
        self.address = os.fspath(address)
        self._core: _core.RunStore | None = _core.RunStore.memory() if self.address == "memory" else None
        self._opening: dict[asyncio.AbstractEventLoop, asyncio.Future[Any]] = {}
        self._closed = False
        self._blocking = threading.Lock()

    async def __aenter__(self) -> Store:
        await self.open()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    def __enter__(self) -> Store:
        refuse_on_a_loop("with Store(...)", "async with Store(...)")
        block_on(self.open())
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close_sync()

    async def open(self) -> _core.RunStore:
        """The open store; not for users."""
        self._check_open()
        if self._core is None:
            loop = asyncio.get_running_loop()
            opening = self._opening.get(loop)
            if opening is None:
                runs = LoopRuns.here()
                opening = runs.ask(lambda token: runs.core.open_store(token, self.address))[2]
                self._opening[loop] = opening
            try:
                core = await asyncio.shield(opening)
            finally:
                self._opening.pop(loop, None)
            self._check_open()  # closed meanwhile: nobody would close it again
            if self._core is None:
                self._core = core
        return self._core

    def open_blocking(self) -> _core.RunStore:
        """The open store, for whoever may block its thread; not for users."""
        with self._blocking:
            self._check_open()
            if self._core is None:
                core = _core.RunStore.open(self.address)
                self._check_open()  # as above
                self._core = core
            return self._core

    def _check_open(self) -> None:
        if self._closed:
            raise ValueError(f"the store {without_passwords(self.address)} is closed")

    async def close(self) -> None:
        """Close the file. Twice does nothing."""
        self._closed = True
        core, self._core = self._core, None
        if core is not None:
            runs = LoopRuns.here()
            await runs.wait(lambda token: runs.core.close_store(token, core))

    def close_sync(self) -> None:
        """``close()`` for programs without an event loop; RuntimeError where one runs."""
        refuse_on_a_loop("Store.close_sync()", "await store.close()")
        block_on(self.close())

    async def load(self, session: str, agent: str, code: str) -> _core.RunState | None:
        """The state of a session's open turn; not for users, who have ``RunState.from_store``."""
        core = await self.open()
        runs = LoopRuns.here()
        state: _core.RunState | None = await runs.wait(lambda token: runs.core.load(token, core, session, agent, code))
        return state


def using(store: Store | str | os.PathLike[str] | None) -> AbstractAsyncContextManager[Store]:
    """A store for one run: the caller's own, or one that is opened and closed here."""
    if isinstance(store, Store):
        return nullcontext(store)
    if store is None:
        return nullcontext(Store())
    if isinstance(store, str | os.PathLike):
        return Store(store)
    raise TypeError(f"store must be a Store, an address or a path, got {type(store).__name__}")


def home_of(given: Store | str | os.PathLike[str] | None, opened: _core.RunStore) -> Store | str | None:
    """Where the runs of a store that was ``given`` so are found again; None for one in memory, which nobody keeps."""
    return given if isinstance(given, Store) else opened.address


def session_id(name: str) -> str:
    """The id of a session that the program calls ``name``: that, where it is a UUID, else one made from it."""
    given: object = name
    if not isinstance(given, str):
        raise TypeError(f"session must be a str, got {type(given).__name__}")
    if not name:
        raise ValueError("session must not be empty")
    try:
        return str(uuid.UUID(name))
    except ValueError:
        return str(uuid.uuid5(_SESSIONS, name))


_SESSIONS = uuid.UUID("6b7a1c52-8f3e-5d0b-9c41-2f1e7a60d3b8")
