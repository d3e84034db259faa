"""`@tool`, with a `ToolContext` for those that ask."""

from __future__ import annotations

import functools
import inspect
import sys
import typing
from collections.abc import Callable, Mapping
from typing import Any, Final, ParamSpec, TypeVar, overload

from hitl.hooks.current import AnyAgent, current_agent
from hitl.hooks.events import ToolUse
from hitl.hooks.interrupts import InterruptException, Interruptible, Questions
from hitl.tools.context import RunContext
from hitl.tools.definition import GOES_ON, Tool
from hitl.tools.definition import tool as make_tool
from hitl.tools.docstrings import read_docstring
from hitl.tools.hints import read_signature, resolve_hints
from hitl.tools.schema import FunctionParameters
from hitl.turn.callables import is_async
from hitl.turn.runtime import current_turn
from hitl.turn.threads import call_blocking

P = ParamSpec("P")
R = TypeVar("R")

DEFAULT_PARAMETER: Final = "tool_context"


class ToolContext(Interruptible):
    """What a tool knows about its call. A tool gets it by annotating a parameter with it, or by `tool(context=...)`.

    Example:
        @hooks.tool
        def rename(path: str, context: hooks.ToolContext) -> str:
            return f"{path} is {context.interrupt('name', reason=path)} now"
    """

    def __init__(self, agent: AnyAgent | None, tool_use: ToolUse, invocation_state: Any, questions: Questions) -> None:
        self.agent = agent
        self.tool_use = tool_use
        self.invocation_state = {} if invocation_state is None else invocation_state
        self._questions = questions


@overload
def tool(
    fn: Callable[P, R] | Tool[P, R],
    *,
    name: str | None = ...,
    description: str | None = ...,
    context: bool | str = ...,
    **options: Any,
) -> Tool[P, R]: ...
@overload
def tool(
    fn: None = None,
    *,
    name: str | None = ...,
    description: str | None = ...,
    context: bool | str = ...,
    **options: Any,
) -> Callable[[Callable[P, R] | Tool[P, R]], Tool[P, R]]: ...
def tool(
    fn: Callable[..., Any] | Tool[..., Any] | None = None,
    *,
    name: str | None = None,
    description: str | None = None,
    context: bool | str = False,
    **options: Any,
) -> Any:
    """Make a tool of a function, plain or async; with no function, a decorator.

    Args:
        fn: The function. Parameters come from its type hints and docstring.
        name: What the model calls it (default: the function's name).
        description: What the model is told (default: the docstring).
        context: The parameter that gets the `ToolContext`: its name, or True for `tool_context`. An annotation
            `ToolContext` says the same.
        options: Those of `hitl.tool`.

    An `async def` that asks through its context is called again from its top when the answer is there, as a callback
    is; every other function waits. A tool with a context is `once` only where it says so: its steps can be.

    Example:
        @hooks.tool(context="about")
        def rename(path: str, about: hooks.ToolContext) -> str:
            return f"{path} is {about.interrupt('name')} now"
    """
    frame = sys._getframe(1)
    local_names = frame.f_locals if frame.f_locals is not frame.f_globals else {}
    given: dict[str, Any] = {"name": name, "description": description, **options}
    named = {option: value for option, value in given.items() if value is not None}

    def make(function: Callable[..., Any] | Tool[..., Any]) -> Tool[..., Any]:
        if isinstance(function, Tool):
            return make_tool(function, **named)
        parameter = _context_parameter(function, context, local_names)
        if parameter is None:
            return make_tool(function, **named)
        return _asking_tool(function, parameter, local_names, {"name": function.__name__, **named})

    return make if fn is None else make(fn)


def _context_parameter(function: Callable[..., Any], context: bool | str, local_names: Mapping[str, Any]) -> str | None:
    names = inspect.signature(function).parameters
    if context is not False:
        wanted = DEFAULT_PARAMETER if context is True else context
        if wanted not in names:
            raise TypeError(f"tool {function.__name__!r} has no parameter {wanted!r} for its context")
        return wanted
    try:
        hints = resolve_hints(function, local_names)
    except NameError:  # a forward reference, which hitl.tool resolves later; a context is none
        return None
    found = [name for name in names if _is_context(hints.get(name))]
    if len(found) > 1:
        raise TypeError(f"tool {function.__name__!r} has several ToolContext parameters: {', '.join(found)}")
    return found[0] if found else None


def _is_context(hint: Any) -> bool:
    return hint is ToolContext or ToolContext in typing.get_args(hint)


def _asking_tool(
    function: Callable[..., Any], parameter: str, local_names: Mapping[str, Any], options: dict[str, Any]
) -> Tool[..., Any]:
    doc = read_docstring(function)
    visible = [each for each in read_signature(function).parameters if each.name != parameter]
    hints = resolve_hints(function, {**local_names, "ToolContext": ToolContext})
    parameters = FunctionParameters(options["name"], visible, hints, doc)

    async def run(hitl_context: RunContext[Any, None], /, **arguments: Any) -> Any:
        return await _call(function, parameter, hitl_context, options["name"], arguments)

    # What `inspect.unwrap` would find is not what the run calls.
    functools.update_wrapper(run, function)
    del run.__wrapped__  # type: ignore[attr-defined]
    setattr(run, GOES_ON, not is_async(function))
    run.__annotations__ = {"hitl_context": RunContext[Any, None]}
    options.setdefault("description", doc.description)
    options.setdefault("once", False)  # what asks inside has to run again up to there
    return Tool.with_parameters(run, parameters, **options)


async def _call(
    function: Callable[..., Any], parameter: str, run: RunContext[Any], name: str, arguments: dict[str, Any]
) -> Any:
    turn = current_turn(f"{name}()")
    tool_use: ToolUse = {"toolUseId": run.tool_call_id or "", "name": name, "input": _plain(arguments)}
    questions = Questions("tool_call", tool_use, turn.idempotency_key())
    context = ToolContext(current_agent(), tool_use, run.context, questions)

    async def call_once() -> Any:
        try:
            if inspect.iscoroutinefunction(function):
                result = await function(**arguments, **{parameter: context})
            else:
                result = await call_blocking(turn, functools.partial(function, **arguments, **{parameter: context}))
                result = await result if inspect.isawaitable(result) else result
        except InterruptException as raised:
            if not questions.has_raised(raised):
                raise
            return None
        if questions.open:
            asked = ", ".join(repr(each.name) for each in questions.open)
            raise RuntimeError(f"{name} caught the InterruptException of {asked} and went on; it must let it pass")
        return result

    return await questions.answered(call_once)


def _plain(arguments: dict[str, Any]) -> Any:
    """Arguments as the person is shown them."""
    from pydantic_core import from_json, to_json

    return from_json(to_json(arguments, by_alias=True))
