"""``hitl.step``: make a step of anything; and the clock, ids and random numbers that replay.

>>> rows = await hitl.step(fetch_rows, "2024-01-01")          # doctest: +SKIP
>>> @hitl.step(key="charge", once=True)                       # doctest: +SKIP
... async def charge(card: str, cents: int) -> str: ...

Everything here is awaited. From a sync agent or a sync tool, which run in threads, use the twin: ``hitl.step.sync``,
``hitl.now.sync()``.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Awaitable, Callable, Coroutine
from datetime import UTC, datetime
from types import FrameType, FunctionType
from typing import TYPE_CHECKING, Any, Concatenate, Final, Generic, ParamSpec, TypeVar, overload

from hitl.turn.retrying import Retries, Transient, check_retries, is_transient, run
from hitl.turn.runtime import Turn, current_turn, location_of
from hitl.turn.threads import call_blocking

if TYPE_CHECKING:
    from uuid import UUID

P = ParamSpec("P")
Q = ParamSpec("Q")
T = TypeVar("T")


_OPTIONS: Final = frozenset({"key", "once", "retries", "transient"})
"""What the decorator takes."""

_WITHOUT_LOOP = ("no running event loop", "There is no current event loop")
"""How asyncio says that a thread has none."""


class StepDecorator:
    """What ``@hitl.step(key=..., once=...)`` returns: it makes every call of a function a step."""

    def __init__(
        self,
        *,
        key: str | None = None,
        once: bool = False,
        retries: int | None = None,
        transient: Transient = "suspend",
    ) -> None:
        check_retries("step()", retries, transient)
        given_key: object = key
        if given_key is not None and not (isinstance(given_key, str) and given_key):
            raise TypeError(f"step() key must be a non-empty str or None, got {key!r}")
        if not isinstance(once, bool):
            raise TypeError(f"step() once must be True or False, got {once!r}")
        if once and retries is not None:
            raise ValueError("step(): a once step is never tried again, so it takes no retries")
        self._key = key
        self._once = once
        self._retries = None if retries is None else Retries(retries, transient, is_transient)

    @overload
    def __call__(self, function: Callable[P, Awaitable[T]]) -> DecoratedStep[P, T]: ...
    @overload
    def __call__(self, function: Callable[P, T]) -> DecoratedStep[P, T]: ...
    def __call__(self, function: Callable[..., Any]) -> DecoratedStep[..., Any]:
        """The function as a step; always awaited, also when it is a plain one."""
        if not callable(function):
            raise TypeError(f"@hitl.step() decorates a function, got {type(function).__name__}")
        return DecoratedStep(function, self._key, self._once, self._retries)


class DecoratedStep(Generic[P, T]):
    """A function of which every call is a step; ``.sync(...)`` from a sync agent or tool."""

    def __init__(
        self, function: Callable[..., Any], key: str | None, once: bool, retries: Retries | None, instance: Any = None
    ) -> None:
        """``instance``: the object that a method is called on."""
        functools.update_wrapper(self, function)
        self._function = function
        self._options = key, once, retries
        self._before = () if instance is None else (instance,)

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, T]:
        turn = current_turn(f"step {_name_of(self._function)}()")
        return _run(turn, self._function, (*self._before, *args), kwargs, sys._getframe(1), *self._options)

    def sync(self, /, *args: P.args, **kwargs: P.kwargs) -> T:
        """The same from a sync agent or tool."""
        turn = current_turn(f"step {_name_of(self._function)}.sync()")
        frame, given = sys._getframe(1), (*self._before, *args)
        result: T = turn.run_sync("step", lambda: _run(turn, self._function, given, kwargs, frame, *self._options))
        return result

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> DecoratedStep[P, T]: ...
    @overload
    def __get__(
        self: DecoratedStep[Concatenate[Any, Q], T], instance: object, owner: type | None = None
    ) -> DecoratedStep[Q, T]: ...
    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self if instance is None else DecoratedStep(self._function, *self._options, instance)


class _Step:
    """``hitl.step``; called with a function it runs that function as a step, without one it makes a decorator."""

    @overload
    def __call__(
        self,
        *,
        key: str | None = None,
        once: bool = False,
        retries: int | None = None,
        transient: Transient = "suspend",
    ) -> StepDecorator: ...
    @overload
    def __call__(
        self, fn: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[Any, Any, T]: ...
    @overload
    def __call__(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, T]: ...
    def __call__(self, fn: Any = None, /, *args: Any, **kwargs: Any) -> Any:  # type: ignore[misc]  # mypy cannot match a ParamSpec
        """Run ``fn(*args, **kwargs)`` as a step: once it has finished, it never runs again for this turn.

        ``fn`` may be async, or plain (it then runs in a thread). Its result must be something that can be stored:
        JSON values, pydantic models, dataclasses, datetime, UUID, Decimal, bytes, Enum, tuple, set; anything else is a
        TypeError. The caller gets the decoded copy of what was stored.

        As a decorator, with parentheses: ``key`` names the step independently of its position in the code; ``once``
        says that a crash in the middle of it must not run it again but ask a person; ``retries`` how often it runs
        again, after a pause, when it raised what may pass by itself (see ``hitl.turn.retrying.is_transient``), and
        ``transient`` whether the last such error suspends the turn, to be retried, or is raised.

        Example:
            rows = await hitl.step(fetch_rows, "2024-01-01")

            @hitl.step(key="charge", once=True)
            async def charge(cents: int) -> str:
                return f"charged {cents}"
        """
        if fn is None:
            return StepDecorator(*args, **kwargs)
        _check_function("step()", fn)
        try:
            turn = current_turn("step()")
        except RuntimeError as outside:
            outside.add_note("hint: to decorate a function, write @hitl.step() with parentheses")
            raise
        _check_options(fn, args, kwargs)
        return _run(turn, fn, args, kwargs, sys._getframe(1))

    @overload
    def sync(self, fn: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs) -> T: ...
    @overload
    def sync(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T: ...
    def sync(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """The same from a sync agent or tool; of a decorated step it is ``decorated.sync(...)``."""
        _check_function("step.sync()", fn)
        turn = current_turn("step.sync()")
        frame = sys._getframe(1)
        _check_options(fn, args, kwargs)
        return turn.run_sync("step", lambda: _run(turn, fn, args, kwargs, frame))


def _check_function(taker: str, given: Any) -> None:
    if callable(given):
        return
    if not inspect.iscoroutine(given):
        raise TypeError(f"{taker} takes a function first, got {type(given).__name__}")
    name = getattr(given, "__name__", "function")
    given.close()  # else Python says besides that it was never awaited
    call = taker.removesuffix(")")
    raise TypeError(
        f"{taker} takes a function first, got what {name}() returns, a coroutine\n\n"
        f"hint: write {call}{name}, ...), with the arguments after the function: it is called in the step"
    )


def _check_options(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """What the decorator takes, in a call that would pass it on to a function that does not: it was meant otherwise."""
    options = kwargs.keys() & _OPTIONS
    if not options:
        return
    try:
        inspect.signature(function).bind(*args, **kwargs)
    except TypeError as error:
        option = min(options)
        raise TypeError(
            f"step() passes {option}= on to {_name_of(function)}(): {error}; hint: the options of a step stand where "
            f"its function is defined: @hitl.step({option}=...), or hitl.step({option}=...)({_name_of(function)})"
        ) from error
    except ValueError:  # a builtin without a signature, which says itself what it takes
        return


def _run(
    turn: Turn,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    frame: FrameType,
    key: str | None = None,
    once: bool = False,
    retries: Retries | None = None,
) -> Coroutine[Any, Any, Any]:
    async def body() -> Any:
        if inspect.iscoroutinefunction(function):
            return await function(*args, **kwargs)
        try:
            result = await call_blocking(turn, function, *args, **kwargs)
        except RuntimeError as error:
            if str(error).startswith(_WITHOUT_LOOP):
                error.add_note(
                    "hint: a plain function runs in a thread, without an event loop; write it as `async def`"
                )
            raise
        # A lambda or a partial around an async function only shows itself by what it returns.
        return await result if inspect.isawaitable(result) else result

    name, location = _name_of(function), location_of(frame)
    arguments = _named_arguments(function, args, kwargs)
    if retries is not None:
        runs = run(turn, retries, "step", name, body, key=key, location=location, arguments=arguments)
    else:
        runs = turn.run_step("step", name, body, key=key, location=location, arguments=arguments, once=once)
    return turn.unawaited.made(runs, runs, f"step {name}() at {location} was never awaited, and has not run")


def _named_arguments(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Arguments by the names of their parameters, so that it does not matter how they were passed."""
    code: Any = getattr(function, "__code__", None)
    if (
        type(function) is FunctionType
        and not code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
        and len(args) <= code.co_argcount
        and not hasattr(function, "__wrapped__")
    ):
        # What `bind` does for plain parameters, at a twentieth of its cost; a wrong call fails in the body.
        return {**dict(zip(code.co_varnames, args, strict=False)), **kwargs}
    try:
        bound = inspect.signature(function).bind(*args, **kwargs)
    except (TypeError, ValueError):  # a wrong call, which fails in the body, or a builtin without a signature
        return {**{str(index): value for index, value in enumerate(args)}, **kwargs}
    return dict(bound.arguments)


def _name_of(function: Callable[..., Any]) -> str:
    inner = function.func if isinstance(function, functools.partial) else function
    return getattr(inner, "__qualname__", type(inner).__name__)


class _Clock(Generic[T]):
    """A value that differs at every call, and is the same again in a replay: read, recorded, then returned."""

    def __init__(self, name: str, read: Callable[[], T], doc: str) -> None:
        self._name = name
        self._read = read
        self.__doc__ = doc

    def __call__(self) -> Coroutine[Any, Any, T]:
        return self._step(current_turn(f"{self._name}()"), sys._getframe(1))

    def sync(self) -> T:
        """The same from a sync agent or tool."""
        turn = current_turn(f"{self._name}.sync()")
        frame = sys._getframe(1)
        return turn.run_sync(self._name, lambda: self._step(turn, frame))

    def _step(self, turn: Turn, frame: FrameType) -> Coroutine[Any, Any, T]:
        async def body() -> T:
            return self._read()

        return turn.run_step("clock", self._name, body, location=location_of(frame))


class _Patched:
    """``await hitl.patched("id")``: True where this edit of the agent's code applies.

    A turn that started before the edit, and already went past this place, gets False in its replay and so keeps to the
    old code; every other turn gets True. One answer per id and turn; what only bodies of steps ask
    is answered in each of them. ``hitl.patched.sync`` in threads.

    Example:
        if await hitl.patched("greet-first"):
            await hitl.step(greet)
    """

    def __call__(self, id: str) -> Coroutine[Any, Any, bool]:
        return self._decide(current_turn("patched()"), id, sys._getframe(1))

    def sync(self, id: str) -> bool:
        """The same from a sync agent or tool."""
        turn = current_turn("patched.sync()")
        frame = sys._getframe(1)
        return turn.run_sync("patched", lambda: self._decide(turn, id, frame))

    async def _decide(self, turn: Turn, id: Any, frame: FrameType) -> bool:
        if not (isinstance(id, str) and id):
            raise TypeError("patched() takes the id of the edit, a non-empty string")
        # A body that is over is not run again by a replay, which would miss what was answered in it.
        own = scope = turn.current_step
        while True:
            known = turn.patches.get(("" if scope is None else scope.path, id))
            if known is not None:
                return known
            if scope is None:
                break
            scope = scope.outer

        async def body() -> bool:
            return True

        applies = await turn.run_step(
            "step", "patched", body, key=f"patched:{id}", location=location_of(frame), past=False, is_edit=True
        )
        return turn.patches.setdefault(("" if own is None else own.path, id), applies)


def _now() -> datetime:
    return datetime.now(UTC)


def _uuid() -> UUID:
    from uuid import uuid4

    return uuid4()


def _random() -> float:
    from random import random as draw

    return draw()


def _about(name: str, value: str, example: str) -> str:
    return (
        f"``await hitl.{name}()``: {value}, recorded, and the same again in a replay.\n\n"
        f"``hitl.{name}.sync()`` in threads. Raises RuntimeError outside a hitl run.\n\nExample:\n    {example}"
    )


# What Python says of wrong arguments, it says of this name: users know no other.
StepDecorator.__init__.__qualname__ = "step"
step = _Step()
now = _Clock(
    "now", _now, _about("now", "the current time, a timezone-aware ``datetime`` in UTC", "began = await hitl.now()")
)
uuid = _Clock("uuid", _uuid, _about("uuid", "a random ``uuid.UUID`` (version 4)", "order = await hitl.uuid()"))
random = _Clock("random", _random, _about("random", "a float in [0.0, 1.0)", "wins = await hitl.random() < 0.5"))
patched = _Patched()
