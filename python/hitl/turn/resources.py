"""What cannot be stored and is needed all the same: pools, clients, engines. Opened once for each loop that runs turns.

>>> @hitl.resources                                            # doctest: +SKIP
... async def database() -> AsyncIterator[Pool]:
...     async with create_pool(DSN) as pool:
...         yield pool

Nothing here is recorded, and no turn sees when it happens. A resource is opened outside of turns, by a task that
belongs to none, when the first step that needs it is about to begin: a step that a replay finds in the journal opens
nothing. Each loop has its own, and what is open in a process is not open in one that is forked from it: a connection
belongs to one process and one loop. It stays open until the worker ends, or the loop does.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Generic, Protocol, TypeVar, overload

from hitl.errors import ModelUnavailable
from hitl.journal.error_codec import error_message, without_passwords
from hitl.turn.reporting import report

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

DEFAULT_OPEN_SECONDS = 30.0
"""How long it may take to open a resource that does not say otherwise."""

END_SECONDS = 1.5
"""How long the end of a worker may take, with all that is closed in it: a server waits two seconds for that."""

_ON_LOOP = "_hitl_resources"
_ON_OPENED = "_hitl_resources_opened"


class ResourceUnavailable(ModelUnavailable):
    """The agent's resources cannot be opened; the text names them. Code of the agent never sees it: the turn is
    suspended, and a retry opens them and goes on."""

    code = "resource_unavailable"


class Source(Protocol[T_co]):
    """Where a turn gets its resources."""

    @property
    def name(self) -> str:
        """What errors call them."""

    @property
    def is_open(self) -> bool:
        """Whether they are open on the running loop, in this process."""

    @property
    def value(self) -> T_co:
        """What they are; RuntimeError where they are not open."""

    def open(self) -> asyncio.Future[None]:
        """Open them, where nobody does so already. Done when they are open; ``ResourceUnavailable`` where they cannot
        be. The future is everybody's who waits: it must not be cancelled."""


class AlreadyOpen:
    """Something that is open already, and stays so: its owner closes it."""

    name = "resources"
    is_open = True

    def __init__(self, value: Any) -> None:
        self.value = value

    def open(self) -> asyncio.Future[None]:
        """See ``Source``; nobody has to ask."""
        raise RuntimeError("it is open already")


class Resources(Generic[T]):
    """What ``@hitl.resources`` makes of a function. Called, it opens one more for whoever calls, as ``async with``.

    Example:
        @hitl.resources
        async def pool() -> AsyncIterator[Pool]:
            yield Pool()

        async with pool() as opened:  # one more, beside those of agents
            await opened.fetchval("select 1")
    """

    def __init__(self, function: Callable[[], Any], name: str, timeout: float | None) -> None:
        """Not for users: see ``hitl.resources``."""
        self.name = name
        """What errors call it."""
        self._function = function
        self._timeout = timeout

    def __repr__(self) -> str:
        return f"<Resources {self.name}>"

    def __call__(self) -> AbstractAsyncContextManager[T]:
        """``async with database() as pool``: one that is only the caller's, open inside of the block."""
        return self._context()

    @property
    def is_open(self) -> bool:
        """Whether it is open on the running loop, in this process."""
        holder = self._holder()
        return holder is not None and holder.is_open

    @property
    def value(self) -> T:
        """What the function yielded on the running loop; RuntimeError where it is not open there."""
        holder = self._holder()
        if holder is None or not holder.is_open:
            raise RuntimeError(f"the resource {self.name!r} is not open here")
        value: T = holder.value
        return value

    def open(self) -> asyncio.Future[None]:
        """See ``Source``."""
        holder = self._holder()
        if holder is None:
            holder = _holders(asyncio.get_running_loop())[self] = _Holder(self)
        return holder.opened

    async def close(self) -> None:
        """Close what is open on the running loop; nothing where nothing is. Whoever needs it next opens it again.

        Workers and loops do so at their end. For a program that goes on, once its runs are over.
        """
        holder = self._holder()
        if holder is not None:
            await _close([holder], None)

    def _holder(self) -> _Holder | None:
        loop = asyncio.get_running_loop()
        holder = _holders(loop).get(self)
        if holder is None or holder.is_usable:
            return holder
        del _holders(loop)[self]  # it failed, was closed, or is another process's
        return None

    @asynccontextmanager
    async def _context(self) -> AsyncIterator[T]:
        made = self._function()
        if inspect.isawaitable(made):
            made = await made
        if not hasattr(made, "__aenter__"):
            raise TypeError(
                f"{self.name}() must yield the resource, or return an async context manager; it returned "
                f"{type(made).__name__}"
            )
        async with made as value:
            yield value


class _Holder:
    """The task that holds one resource open: whoever enters a context manager has to leave it as well."""

    def __init__(self, of: Resources[Any]) -> None:
        loop = asyncio.get_running_loop()
        # Not made by the loop: the turn that runs at this moment would count it as its own.
        self.opened: asyncio.Future[None] = asyncio.Future(loop=loop)
        self.value: Any = None
        self.closing = asyncio.Event()
        self._of = of
        self._pid = os.getpid()
        # An empty context: whatever turn runs here, this task is not part of it.
        self.task = loop.create_task(self._keep_open(), name=f"hitl {of.name}", context=contextvars.Context())
        self.task.add_done_callback(self._ended, context=contextvars.Context())

    @property
    def is_open(self) -> bool:
        return self.is_usable and self.opened.done()

    @property
    def is_usable(self) -> bool:
        """Whether it is open or being opened, here."""
        is_lost = self.task.done() or self.closing.is_set() or self._pid != os.getpid()
        return not is_lost and not (self.opened.done() and self.opened.exception() is not None)

    async def _keep_open(self) -> None:
        manager = self._of()
        try:
            async with asyncio.timeout(self._of._timeout):
                self.value = await manager.__aenter__()
        except BaseException as error:
            self._failed(error)
            if isinstance(error, asyncio.CancelledError) and self.closing.is_set():
                raise
            return
        self.opened.set_result(None)
        tell = getattr(asyncio.get_running_loop(), _ON_OPENED, None)
        if tell is not None:
            tell()
        try:
            await self.closing.wait()
        finally:  # also where the loop cancels what is left on it
            await self._leave(manager)

    def _ended(self, _: object) -> None:
        """Said here, since a task that is cancelled before it began runs no line of its own."""
        if not self.opened.done():
            self._failed(ConnectionError("it was closed before it was open"))

    def _failed(self, error: BaseException) -> None:
        text, seconds = without_passwords(error_message(error)), self._of._timeout
        if isinstance(error, TimeoutError) and not text and seconds is not None:
            text = f"it was not open after {seconds:g} s"
        reason = f"{type(error).__name__}: {text}" if text else type(error).__name__
        unavailable = ResourceUnavailable(f"the resource {self._of.name!r} cannot be opened: {reason}")
        unavailable.__cause__ = error
        self.opened.set_exception(unavailable)
        self.opened.exception()  # seen: those who waited may be gone

    async def _leave(self, manager: AbstractAsyncContextManager[Any]) -> None:
        try:
            await manager.__aexit__(None, None, None)
        except Exception as error:  # noqa: BLE001 - nobody is left to raise to, and the others are to be closed too
            reason = f"{type(error).__name__}: {without_passwords(error_message(error))}"
            report(f"hitl: closing the resource {self._of.name!r} failed: {reason}\n")


def _holders(loop: asyncio.AbstractEventLoop) -> dict[Resources[Any], _Holder]:
    """What is open on a loop; lives and dies with it."""
    holders: dict[Resources[Any], _Holder] | None = getattr(loop, _ON_LOOP, None)
    if holders is None:
        holders = {}
        setattr(loop, _ON_LOOP, holders)
    return holders


async def close_all(seconds: float) -> None:
    """Close what is open on the running loop. What is not closed after so many seconds is left as it is, and told."""
    holders = getattr(asyncio.get_running_loop(), _ON_LOOP, None)
    if holders:
        await _close([holder for holder in holders.values() if holder.is_usable], seconds)
        holders.clear()


def when_opened(loop: asyncio.AbstractEventLoop, tell: Callable[[], object]) -> None:
    """Call ``tell`` whenever something was opened there, before anybody uses it."""
    setattr(loop, _ON_OPENED, tell)


def has_open(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether ``close_all`` has something to do there."""
    return bool(getattr(loop, _ON_LOOP, None))


async def _close(holders: list[_Holder], seconds: float | None) -> None:
    for holder in holders:
        is_open = holder.is_open
        holder.closing.set()
        if not is_open:
            holder.task.cancel()
    tasks = {holder.task for holder in holders}
    if not tasks:
        return
    _, left = await asyncio.wait(tasks, timeout=seconds)
    for holder in holders:
        if holder.task in left:
            report(f"hitl: the resource {holder._of.name!r} was not closed within {seconds:g} s\n")
            holder.task.cancel()


class ResourcesDecorator(Protocol):
    """What ``@hitl.resources(...)`` with options returns."""

    @overload
    def __call__(self, function: Callable[[], AsyncIterator[T]], /) -> Resources[T]: ...
    @overload
    def __call__(self, function: Callable[[], AbstractAsyncContextManager[T]], /) -> Resources[T]: ...
    @overload
    def __call__(self, function: Callable[[], Awaitable[AbstractAsyncContextManager[T]]], /) -> Resources[T]: ...


@overload
def resources(function: Callable[[], AsyncIterator[T]], /) -> Resources[T]: ...
@overload
def resources(function: Callable[[], AbstractAsyncContextManager[T]], /) -> Resources[T]: ...
@overload
def resources(function: Callable[[], Awaitable[AbstractAsyncContextManager[T]]], /) -> Resources[T]: ...
@overload
def resources(*, name: str | None = None, timeout: float | None = DEFAULT_OPEN_SECONDS) -> ResourcesDecorator: ...
def resources(function: Any = None, /, *, name: str | None = None, timeout: float | None = DEFAULT_OPEN_SECONDS) -> Any:
    """Say how resources are opened and closed: an async generator function that yields them once, or a function that
    returns an async context manager, as ``asyncpg.create_pool`` and ``httpx.AsyncClient`` are. It takes no parameters.

    Tools get what it yields as ``RunContext.resources``, or as a parameter ``pool: Annotated[Pool, hitl.Resource]``.
    Opened once for each event loop that runs turns, when the first tool that takes it is about to begin; closed when
    the worker, the server or the loop ends. One that cannot be opened suspends the turn (``ResourceUnavailable``).

    - ``name``: what errors call it; the function's name otherwise.
    - ``timeout``: seconds that opening may take; None is without limit.

    Raises TypeError or ValueError for what cannot be opened so.

    Example:
        @hitl.resources
        async def database() -> AsyncIterator[Pool]:
            async with create_pool("postgresql://localhost/shop") as pool:
                yield pool

        agent = ReActAgent(tools=[delete_file], resources=database)
    """
    given_name: Any = name
    if given_name is not None and not (isinstance(given_name, str) and given_name):
        raise TypeError(f"resources() name must be a non-empty str or None, got {name!r}")
    if timeout is not None:
        if isinstance(timeout, bool) or not isinstance(timeout, int | float):
            raise TypeError(f"resources() timeout is a number of seconds or None, got {timeout!r}")
        if not 0 < timeout < float("inf"):
            raise ValueError(f"resources() timeout must be more than 0 seconds, got {timeout!r}")

    def make(function: Any) -> Resources[Any]:
        _check(function)
        opens = asynccontextmanager(function) if inspect.isasyncgenfunction(function) else function
        return Resources(opens, name or str(getattr(function, "__name__", "resources")), timeout)

    return make if function is None else make(function)


def _check(function: Any) -> None:
    if not callable(function):
        raise TypeError(f"resources() decorates a function, got {type(function).__name__}")
    label = getattr(function, "__name__", repr(function))
    if inspect.isgeneratorfunction(function):
        raise TypeError(f"resources(): {label} is a plain generator\n\nhint: write it as `async def` with one `yield`")
    try:
        inspect.signature(function).bind()
    except TypeError as error:
        raise TypeError(
            f"resources(): {label} must take no parameters: {error}\n\nhint: read what it needs from the environment, "
            "inside of it: it runs in each worker"
        ) from None
    except ValueError:  # a builtin whose signature cannot be read
        return


def check_declared(owner: str, value: Any) -> Resources[Any] | None:
    """What an agent is declared with; TypeError for anything but what ``@hitl.resources`` made."""
    if value is None or isinstance(value, Resources):
        return value
    raise TypeError(
        f"{owner}: resources must be made by @hitl.resources, got {type(value).__name__}\n\nhint: what is opened at "
        "the import would be shared by all workers that are forked from there"
    )


def given(owner: str, value: Any) -> Source[Any] | None:
    """What a run or a live server is given: resources to be opened, or an object that its owner has opened."""
    if value is None or isinstance(value, Resources):
        return value
    if inspect.isroutine(value) or inspect.iscoroutine(value):
        raise TypeError(
            f"{owner}: resources is what @hitl.resources made, or an object that is open already; got {value!r}\n\n"
            "hint: put @hitl.resources over the function"
        )
    return AlreadyOpen(value)


resources_at_work: contextvars.ContextVar[Source[Any] | None] = contextvars.ContextVar("hitl_resources", default=None)
"""Those of the agent that works in this context, where it has its own."""
