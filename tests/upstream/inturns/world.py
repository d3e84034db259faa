"""What a test can see of steps that do not run again.

A test counts what its tools and models did in lists of its own. To a turn these are the world outside, which outlives
a crash; but a replay here begins with an empty list. So whenever the journal has served a step, its body runs besides,
outside of the turn, and what it returns is thrown away: the lists know of it, the turn does not.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable
from typing import Any

from hitl.turn.places import place_var
from hitl.turn.runtime import Turn

_SECONDS = 50.0
"""As for a test; but what waits for something of the turn, which stands still meanwhile, comes to it."""

_run_step: Any = Turn.run_step


def _as_it_is(value: Any) -> Any:
    return value


def _never(value: Any, error: Exception) -> bool:
    return False


_outcome: Callable[[Any], Any] = _as_it_is
"""What a step has come to, once a turn was told so; `outcome` of the module of the framework whose tests run."""
_is_like: Callable[[Any, Exception], bool] = _never
"""Whether it is right that what runs beside the turn raises this; its `is_like`."""

ran: list[str] = []
"""Paths of the steps whose bodies the turn itself has run since `forget`."""
unlike: list[str] = []
"""Steps whose bodies raised beside the turn although the journal has a value of them, or the other way round."""


def forget() -> None:
    """Begin to note anew."""
    ran.clear()
    unlike.clear()


async def _remembering(self: Turn, kind: str, name: str, body: Callable[[], Awaitable[Any]], **options: Any) -> Any:
    has_run = False

    async def noted() -> Any:
        nonlocal has_run
        has_run = True
        step = self.current_step
        assert step is not None
        ran.append(step.path)
        return await body()

    try:
        value = await _run_step(self, kind, name, noted, **options)
    except Exception as error:
        if not has_run and not self.failure.done():
            _remember(f"{kind} {name}", body, error, None)
        raise
    if not has_run:
        _remember(f"{kind} {name}", body, None, value)
    return _outcome(value)


def _remember(title: str, body: Any, recorded: Exception | None, value: Any) -> None:
    loop = asyncio.new_event_loop()
    context = contextvars.copy_context()
    context.run(place_var.set, None)
    running = asyncio._get_running_loop()
    asyncio._set_running_loop(None)  # that of the turn stands still meanwhile
    try:
        loop.run_until_complete(loop.create_task(asyncio.wait_for(_called(body), _SECONDS), context=context))
    except Exception as error:  # noqa: BLE001  (whatever it is, the journal has said what came of it)
        if recorded is None and not _is_like(value, error):
            unlike.append(f"{title}: {type(error).__name__}: {error}")
    else:
        if recorded is not None:
            unlike.append(f"{title}: nothing, instead of {type(recorded).__name__}")
    finally:
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()
        asyncio._set_running_loop(running)


async def _called(body: Any) -> None:
    await getattr(body, "body", body)()  # of a request that may be made again, the request


def install(module: Any) -> None:
    """Let every turn of this process remember, for the tests of a framework."""
    global _outcome, _is_like
    _outcome, _is_like = getattr(module, "outcome", _as_it_is), getattr(module, "is_like", _never)
    Turn.run_step = _remembering  # type: ignore[method-assign, assignment]
