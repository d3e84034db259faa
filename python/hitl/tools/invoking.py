"""An author's code that is about a tool: called in the way that it is written, and a step where there is a turn."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from hitl.turn.callables import is_async
from hitl.turn.runtime import Turn, call_blocking


async def invoke(turn: Turn | None, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call user code, plain (in a thread) or async."""
    if is_async(function):
        return await function(*args, **kwargs)
    if turn is None:
        result = await asyncio.to_thread(function, *args, **kwargs)
    else:
        result = await call_blocking(turn, function, *args, **kwargs)
    # A lambda or a partial around an async function only shows itself by what it returns.
    return await result if inspect.isawaitable(result) else result


async def as_step(
    turn: Turn | None,
    kind: str,
    name: str,
    body: Callable[[], Any],
    arguments: Mapping[str, Any],
    **options: Any,
) -> Any:
    """A step where there is a turn, and else just done. `options` are those of `Turn.run_step`."""
    return await body() if turn is None else await turn.run_step(kind, name, body, arguments=arguments, **options)
