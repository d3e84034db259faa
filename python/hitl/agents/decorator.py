"""``@hitl.agent``: say something about an agent where it is defined."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, overload

from hitl.driver.declaring import check_context_from
from hitl.driver.shapes import OPTIONS_ATTRIBUTE, AgentOptions, as_agent

if TYPE_CHECKING:
    from hitl.driver.requests import ContextFrom
    from hitl.turn.resources import Resources

A = TypeVar("A")


@overload
def agent(target: A, /) -> A: ...
@overload
def agent(
    *,
    replay: bool = True,
    pin: bool = False,
    name: str | None = None,
    version: str | None = None,
    resources: Resources[Any] | None = None,
    context_from: ContextFrom | None = None,
) -> Callable[[A], A]: ...
def agent(
    target: Any = None,
    /,
    *,
    replay: bool = True,
    pin: bool = False,
    name: str | None = None,
    version: str | None = None,
    resources: Resources[Any] | None = None,
    context_from: ContextFrom | None = None,
) -> Any:
    """Options of an agent: ``@hitl.agent(version="2")`` over a function, a class, or around an object.

    - ``replay=False``: this agent cannot be continued from its journal. Its sessions are never parked, and losing the
      worker in the middle of a turn is an error that says so.
    - ``pin=True``: a turn goes on under the code that recorded it and under no other, which is not even tried: it is an
      error with the code ``code_pinned`` until a server with that code takes it up.
    - ``name``: what clients see; the function's or class's name otherwise.
    - ``version``: of the agent's code, recorded with each turn.
    - ``resources``: what its tools need and cannot be stored, pools and clients: see ``hitl.resources``.
    - ``context_from``: makes ``RunContext.context`` of a ``TurnRequest``, once for each turn that is given none; plain
      or async. What it returns is stored in the journal.

    A class is returned itself; a function or an object is wrapped, not changed. Raises TypeError for an option of the
    wrong type, and for what cannot be an agent.

    Example:
        @hitl.agent(name="echo", version="2")
        async def echo(message: ChatMessage, state: list[ChatMessage]) -> tuple[ChatMessage, list[ChatMessage]]:
            reply = ChatMessage.assistant_message(content=message.content)
            return reply, [*state, message, reply]
    """
    given: tuple[tuple[str, Any], ...] = (("name", name), ("version", version))
    for label, text in given:
        if text is not None and not (isinstance(text, str) and text):
            raise TypeError(f"agent() {label} must be a non-empty str or None, got {text!r}")
    for label, flag in (("replay", replay), ("pin", pin)):
        if not isinstance(flag, bool):
            raise TypeError(f"agent() {label} must be a bool, got {type(flag).__name__}")
    if pin and not replay:
        raise TypeError(
            "agent() pin=True says which code replays a turn, and replay=False that none does: leave one out"
        )
    options = AgentOptions(
        replay=replay,
        pin=pin,
        name=name,
        version=version,
        resources=None if resources is None else _check_resources(resources),
        context_from=None if context_from is None else check_context_from("agent()", context_from),
    )

    def decorate(target: Any) -> Any:
        if inspect.isclass(target):
            setattr(target, OPTIONS_ATTRIBUTE, options)
            return target
        if inspect.isfunction(target):
            return _function_with_options(target, options)
        return _WithOptions(target, options)

    return decorate if target is None else decorate(target)


def _check_resources(given: Any) -> Any:
    # Late: this module makes agents before anything runs them, and most have none.
    from hitl.turn.resources import check_declared

    return check_declared("agent()", given)


def _function_with_options(function: Callable[..., Any], options: AgentOptions) -> Callable[..., Any]:
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def wrapper(*args: Any, **kwargs: Any) -> Any:
            return await function(*args, **kwargs)
    else:

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

    setattr(wrapper, OPTIONS_ATTRIBUTE, options)
    return wrapper


class _WithOptions:
    """An agent object and the options it was wrapped with; everything else is the object's."""

    def __init__(self, wrapped: Any, options: AgentOptions) -> None:
        loaded = as_agent(wrapped)  # a wrong shape is an error here, where the mistake is
        self._wrapped = loaded.target  # what an adapter made of it, where one did
        self._run = loaded.run
        declared = options._replace(
            name=options.name or loaded.name,
            resources=loaded.resources if options.resources is None else options.resources,
            context_from=loaded.context_from if options.context_from is None else options.context_from,
        )
        setattr(self, OPTIONS_ATTRIBUTE, declared)

    @property
    def run_turn(self) -> Any:
        return getattr(self._wrapped, "run_turn", self._run)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._wrapped, name)
