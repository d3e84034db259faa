"""What a suspended task stands in: its coroutines, from its own to what it awaits in the end, and what they hold."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from contextlib import AsyncExitStack
from types import AsyncGeneratorType, CoroutineType, FrameType, FunctionType, GeneratorType, MethodType
from typing import Any

_SUSPENDED = (CoroutineType, GeneratorType, AsyncGeneratorType)


def suspended(task: asyncio.Task[Any]) -> Iterator[tuple[Any, FrameType]]:
    """The coroutines and generators of a task with their frames, from its own to what awaits in the end."""
    awaiting: Any = task.get_coro()
    while awaiting is not None and not asyncio.isfuture(awaiting):
        for prefix in ("cr", "gi", "ag"):
            frame = getattr(awaiting, f"{prefix}_frame", None)
            if frame is not None:
                yield awaiting, frame
                awaiting = getattr(awaiting, "gi_yieldfrom" if prefix == "gi" else f"{prefix}_await")
                break
        else:
            # What `__await__` of a coroutine returns, and a step of an asynchronous generator, show nothing of it.
            awaiting = next((inner for inner in gc.get_referents(awaiting) if isinstance(inner, _SUSPENDED)), None)


def frames(task: asyncio.Task[Any]) -> Iterator[FrameType]:
    """The frames alone."""
    return (frame for _, frame in suspended(task))


def awaiting_frame(task: asyncio.Task[Any]) -> FrameType | None:
    """The innermost."""
    frame = None
    for frame in frames(task):  # noqa: B007 - the last one
        pass
    return frame


def entered(task: asyncio.Task[Any]) -> Iterator[object]:
    """What a task has entered by ``with`` or ``async with``, or is about to, and will leave."""
    for inner, _ in suspended(task):
        yield from _entered(inner)


def _entered(inner: Any) -> Iterator[object]:
    # What leaves each of them lies on the stack meanwhile: a bound method; on newer Pythons a function, and its object.
    held = gc.get_referents(inner)
    functions = {id(found) for found in held if isinstance(found, FunctionType)}
    for found in held:
        if isinstance(found, MethodType) and found.__name__ in ("__aexit__", "__exit__"):
            yield from _and_inside(found.__self__)
        elif functions and id(getattr(type(found), "__aexit__", None)) in functions:
            yield from _and_inside(found)


def _and_inside(manager: Any) -> Iterator[object]:
    """A context manager, and those that it has entered itself."""
    yield manager
    if isinstance(manager, AsyncExitStack):
        for _, leave in getattr(manager, "_exit_callbacks", ()):
            if isinstance(leave, MethodType):
                yield from _and_inside(leave.__self__)
    elif isinstance(generator := getattr(manager, "gen", None), _SUSPENDED):  # contextlib's
        yield from _entered(generator)
