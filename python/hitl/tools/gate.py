"""The gate without our agent: for those who have a loop of their own, in a served agent, in `hitl.run` and in tests.

>>> approved = await hitl.approval("transfer", {"cents": 500})          # doctest: +SKIP
>>> await transfer(**approved.args)                                     # doctest: +SKIP

>>> @hitl.requires_approval                                             # doctest: +SKIP
... async def transfer(cents: int) -> str: ...
"""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from datetime import timedelta
from types import FrameType
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, Unpack, cast, overload

from hitl import _core
from hitl.decisions import Approval, DecisionKind, read_allowed_decisions, read_approvers
from hitl.errors import InvalidAnswer
from hitl.tools.asking import Question, ask_binding_id
from hitl.tools.definition import TOOL_ATTRIBUTE, Tool, make_tool
from hitl.tools.hints import class_of, takes_object
from hitl.tools.options import SETTERS, ToolOptions
from hitl.tools.schema import check_schema
from hitl.turn.interrupts import seconds
from hitl.turn.naming import check_text
from hitl.turn.runtime import Turn, current_turn, location_of
from hitl.turn.unawaited import NOBODY_ASKED

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
T = TypeVar("T")
ResultT_co = TypeVar("ResultT_co", covariant=True)

_DEFAULT_DECISIONS: tuple[DecisionKind, ...] = ("approve", "edit", "reject")


class _Approval:
    """``hitl.approval``; see ``__call__``."""

    def __call__(
        self,
        tool_name: str,
        args: Mapping[str, Any],
        *,
        description: str | None = None,
        allowed_decisions: Iterable[DecisionKind] = _DEFAULT_DECISIONS,
        approvers: Iterable[str] | None = None,
        args_schema: Mapping[str, Any] | None = None,
        tool_call_id: str | None = None,
        key: str | None = None,
        expires_in: float | timedelta | None = None,
        agent: str | None = None,
        source: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Coroutine[Any, Any, Approval]:
        """Ask whether a call may run, as for a tool with ``requires_approval=True``: the same interrupt, the same
        rules and grants. The caller runs it, with ``approval.args``.

        - ``args``: what would run, a dict of JSON values; the person sees them and approves exactly them.
        - ``description``: one line beside them.
        - ``approvers``: who alone may answer on a server: names of keys, and ``group:<name>``.
        - ``args_schema``: JSON Schema of the arguments; edited ones that do not fit are refused before they get here.
          Without it any object of arguments may be the edit.
        - ``tool_call_id``: the id the model gave the call. An id that comes back with other arguments is an
          ``ApprovalMismatch``.
        - ``key``: names the question independently of its position in the code.
        - ``expires_in``: seconds (or a timedelta) until it lapses, which raises ``InterruptExpired``.
        - ``agent``: whose call it is; the turn's agent without it. Rules, grants and people know a call by it.
        - ``source``: where the tool is from, where it is not this program's own, for example ``mcp:files``: what is
          allowed for always holds for that tool alone, and not for one of the same name from elsewhere.
        - ``metadata``: a dict of JSON values, kept with the interrupt and not shown as part of the question.

        Returns an ``Approval``. Raises ``ToolRejected``, whose text is for the model; ``InvalidAnswer`` for an answer
        that is none; RuntimeError outside a hitl run; TypeError or ValueError for what cannot be asked.

        Example:
            approved = await hitl.approval("transfer", {"cents": 500}, expires_in=3600)
            await hitl.step(transfer, **approved.args)
        """
        turn = current_turn("approval()")
        frame, mark = sys._getframe(1), object()
        asks = _ask(
            turn,
            tool_name,
            args,
            description,
            allowed_decisions,
            approvers,
            args_schema,
            tool_call_id,
            key,
            expires_in,
            agent,
            source,
            metadata,
            frame,
            mark,
        )
        return turn.unawaited.made(mark, asks, f"approval() at {location_of(frame)} {NOBODY_ASKED}")

    def sync(
        self,
        tool_name: str,
        args: Mapping[str, Any],
        *,
        description: str | None = None,
        allowed_decisions: Iterable[DecisionKind] = _DEFAULT_DECISIONS,
        approvers: Iterable[str] | None = None,
        args_schema: Mapping[str, Any] | None = None,
        tool_call_id: str | None = None,
        key: str | None = None,
        expires_in: float | timedelta | None = None,
        agent: str | None = None,
        source: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Approval:
        """The same from a sync agent or a sync tool; blocks the calling thread, RuntimeError on an event loop's."""
        turn = current_turn("approval()")
        frame = sys._getframe(1)
        return turn.run_sync(
            "approval",
            lambda: _ask(
                turn,
                tool_name,
                args,
                description,
                allowed_decisions,
                approvers,
                args_schema,
                tool_call_id,
                key,
                expires_in,
                agent,
                source,
                metadata,
                frame,
            ),
        )


# What Python says of wrong arguments, it says of this name: users know no other.
_Approval.__call__.__qualname__ = "approval"
approval = _Approval()


async def _ask(
    turn: Turn,
    tool_name: str,
    args: Mapping[str, Any],
    description: str | None,
    allowed_decisions: Iterable[DecisionKind],
    approvers: Iterable[str] | None,
    args_schema: Mapping[str, Any] | None,
    tool_call_id: str | None,
    key: str | None,
    expires_in: float | timedelta | None,
    agent: str | None,
    source: str | None,
    metadata: Mapping[str, Any] | None,
    frame: FrameType,
    mark: object | None = None,
) -> Approval:
    turn.unawaited.begun(mark)
    if not (tool_name and isinstance(tool_name, str)):
        raise TypeError(f"approval() takes the name of the tool first, got {tool_name!r}")
    check_text("approval() tool_name", tool_name)
    texts: dict[str, Any] = {
        "description": description,
        "tool_call_id": tool_call_id,
        "key": key,
        "agent": agent,
        "source": source,
    }
    for name, text in texts.items():
        if text is not None and not isinstance(text, str):
            raise TypeError(f"approval() {name} must be a str or None, got {type(text).__name__}")
        if text is not None:
            check_text(f"approval() {name}", text)
    if not isinstance(args, Mapping):
        raise TypeError(f"approval() args must be a dict, got {type(args).__name__}")
    if metadata is not None and not isinstance(metadata, Mapping):
        raise TypeError(f"approval() metadata must be a dict or None, got {type(metadata).__name__}")
    question = Question(
        tool_name=tool_name,
        arguments=_plain(args),
        allowed=read_allowed_decisions(allowed_decisions),
        approvers=read_approvers(approvers),
        description=description,
        args_schema=_checked_schema(args_schema),
        tool_call_id=tool_call_id,
        key=key,
        expires_in=seconds("approval()", expires_in),
        location=location_of(frame),
        agent=agent,
        source=source,
        metadata=None if metadata is None else _plain(metadata),
    )
    decision = await ask_binding_id(turn, question)
    if decision["type"] == "respond":
        return Approval(question.arguments, responded=True, response=decision["message"])
    if decision["type"] == "edit":
        _check_edit(question, decision["args"])
        return Approval(decision["args"], edited=True)
    return Approval(question.arguments)


def _check_edit(question: Question, args: dict[str, Any]) -> None:
    """Whoever stored the answer has checked it; what runs is checked here all the same."""
    wrong = [] if question.args_schema is None else _core.validate(question.args_schema, args)
    if wrong:
        places = "; ".join(f"{'.'.join(map(str, item['loc'])) or 'arguments'}: {item['msg']}" for item in wrong)
        raise InvalidAnswer(f"the arguments that a person gave do not fit {question.tool_name}: {places}")


def _plain(args: Mapping[str, Any]) -> dict[str, Any]:
    """A copy, as JSON: what the caller goes on changing is not what was asked about."""
    plain: dict[str, Any] = json.loads(_core.to_json(dict(args)))
    return plain


def _checked_schema(schema: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if schema is None:
        return None
    if not isinstance(schema, Mapping):
        raise TypeError(f"approval() args_schema must be a JSON Schema, got {type(schema).__name__}")
    check_schema("args_schema", dict(schema))
    return _plain(schema)


class GatedFunction(Protocol[P, ResultT_co]):
    """What ``requires_approval`` makes of a function: a function, with ``call`` beside it."""

    __name__: str

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> ResultT_co:
        """The call, once it is approved."""

    @overload
    async def call(self: GatedFunction[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs) -> T: ...
    @overload
    async def call(self, /, *args: P.args, **kwargs: P.kwargs) -> ResultT_co: ...

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> GatedFunction[P, ResultT_co]: ...
    @overload
    def __get__(
        self: GatedFunction[Concatenate[Any, Q], R], instance: object, owner: type | None = None
    ) -> Callable[Q, R]: ...


class Gate(Protocol):
    """What ``requires_approval(...)`` with options makes: a decorator."""

    @overload
    def __call__(self, function: Tool[P, R], /) -> Tool[P, R]: ...  # type: ignore[overload-overlap]  # see below
    @overload
    def __call__(self, function: Callable[P, R], /) -> GatedFunction[P, R]: ...


@overload
def requires_approval(function: Tool[P, R], /) -> Tool[P, R]: ...  # type: ignore[overload-overlap]  # a tool is first
@overload
def requires_approval(function: Callable[P, R], /) -> GatedFunction[P, R]: ...
@overload
def requires_approval(**options: Unpack[ToolOptions]) -> Gate: ...
def requires_approval(function: Any = None, /, **options: Unpack[ToolOptions]) -> Any:
    """Gate a plain or async function: each call inside a hitl run is asked about first, and runs once, as a step.

    ``@hitl.requires_approval`` or ``@hitl.requires_approval(description=..., on_approval=..., ...)``: the options are
    those of ``hitl.tool``; ``requires_approval=`` itself may be a callable ``(ctx, args) -> bool``. The result is a
    function of the same kind and signature, so that other frameworks can make a tool of it. A plain function blocks its
    thread while it waits; on an event loop write ``await function.call(...)``, of a method
    ``await Bank.transfer.call(bank, ...)``.

    A call raises ``ToolRejected`` after a no, RuntimeError outside a hitl run, and what the function raises. A ``Tool``
    that is given comes back as a gated copy. Raises TypeError or ValueError for an option that is none or cannot be.

    Example:
        @hitl.requires_approval(allowed_decisions=["approve", "reject"])
        async def transfer(cents: int) -> str:
            return f"transferred {cents}"
    """
    changes = {"requires_approval": True, **cast(dict[str, Any], options)}
    if unknown := changes.keys() - SETTERS.keys():
        raise TypeError(f"requires_approval() has no option {min(unknown)!r}; it takes those of hitl.tool")
    if changes["requires_approval"] is False:
        raise ValueError("requires_approval(requires_approval=False) would gate nothing")
    frame = sys._getframe(1)
    local_names = frame.f_locals if frame.f_locals is not frame.f_globals else None

    def gate(function: Any) -> Any:
        made = make_tool(function, changes, local_names)
        return made if isinstance(function, Tool) else _gated(function, made)

    return gate if function is None else gate(function)


def _may_be_of(method: Callable[..., Any], given: object) -> bool:
    """Whether this may be the object of the method: of its class, or with a method of its name."""
    owner = class_of(method)
    kind = type(given)
    return owner is None or hasattr(kind, method.__name__) or owner in (each.__name__ for each in kind.__mro__)


def _gated(function: Callable[..., Any], made: Tool[..., Any]) -> Callable[..., Any]:
    is_method = takes_object(function)

    def of(args: tuple[Any, ...]) -> tuple[Tool[..., Any], tuple[Any, ...]]:
        """The tool, bound to the object that a method is called on, and the arguments that are left."""
        return (made.__get__(args[0]), args[1:]) if is_method and args else (made, args)

    async def call(*args: Any, **kwargs: Any) -> Any:
        if is_method and not (args and _may_be_of(function, args[0])):
            # Looked up on a bound method it is the function's own, and knows nothing of the object.
            where = f"{class_of(function) or 'TheClass'}.{made.name}.call"
            raise TypeError(f"{where}() takes the object first\n\nhint: await {where}(the_object, ...)")
        target, rest = of(args)
        return await target.call(*rest, **kwargs)

    if made.is_async:

        @functools.wraps(function)
        async def gated(*args: Any, **kwargs: Any) -> Any:
            return await call(*args, **kwargs)

    else:

        @functools.wraps(function)
        def gated(*args: Any, **kwargs: Any) -> Any:
            target, rest = of(args)
            return target(*rest, **kwargs)

    gated.call = call  # type: ignore[attr-defined]
    if not is_method:
        setattr(gated, TOOL_ATTRIBUTE, made)
    return gated
