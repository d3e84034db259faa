"""`@tool`: a function a model may call, with its schema, its guardrails and its approval."""

from __future__ import annotations

import contextlib
import copy
import functools
import logging
import sys
import types
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Concatenate, Final, Generic, ParamSpec, TypeVar, overload

from hitl import _core
from hitl.decisions import DecisionKind
from hitl.tools.context import ApprovalCallback, ApprovalDescription, ApprovalPolicy, RunContext
from hitl.tools.docstrings import DocString, read_docstring
from hitl.tools.filled import FilledParameters, read_filled
from hitl.tools.guardrails import (
    Guardrail,
    InputGuardrail,
    OutputGuardrail,
    read_input_guardrails,
    read_output_guardrails,
)
from hitl.tools.hints import Signature, of_class, read_signature, resolve_hints, takes_object
from hitl.tools.options import SETTERS, set_name
from hitl.tools.options import is_tool_name as is_tool_name
from hitl.tools.schema import (
    Arguments,
    FunctionParameters,
    ModelParameters,
    Parameters,
    SchemaParameters,
)
from hitl.turn.callables import is_async

if TYPE_CHECKING:
    from pydantic import BaseModel

logger = logging.getLogger("hitl.tools")

R = TypeVar("R")
T = TypeVar("T")
Q = ParamSpec("Q")
if TYPE_CHECKING:
    # With defaults, which checkers know and Python does not yet: `Tool` is a whole type by itself.
    import typing_extensions

    P = typing_extensions.ParamSpec("P", default=...)
    R_co = typing_extensions.TypeVar("R_co", covariant=True, default=Any)
else:
    P = ParamSpec("P")
    R_co = TypeVar("R_co", covariant=True)

GOES_ON: Final = "__hitl_goes_on__"
"""Where the async function of a tool says that a thread does its work."""
TOOL_ATTRIBUTE: Final = "__hitl_tool__"
"""Where a function keeps the tool behind it, so that nobody makes another one of it that has lost its gate."""

_UNSET: Final[Any] = object()


class Tool(Generic[P, R_co]):
    """A function a model may call. Made by `tool`; never changed afterwards.

    Called inside a hitl run (by a model or from Python), the arguments are checked, guardrails look at them, a
    person approves them where that is required, and the call is a journaled step. Outside a run a tool is its
    function, except that one which needs approval refuses. TypeError for what is no function.

    Example:
        made: Tool = hitl.tool(delete, requires_approval=True)
        print(made.name, made.definition["function"]["parameters"])
    """

    def __init__(self, function: Callable[P, R_co], *, _local_names: Mapping[str, Any] | None = None):
        if isinstance(function, classmethod):
            raise TypeError(of_class(function.__func__))
        if not callable(function):
            raise TypeError(f"tool() needs a function, got {type(function).__name__}")
        target = function.func if isinstance(function, functools.partial) else function
        self.function: Callable[P, R_co] = function
        """The bare function: no checks, no guardrails, no approval, no journal."""
        functools.update_wrapper(self, target)
        self.name: str = getattr(target, "__name__", type(target).__name__)
        """What the model calls it."""
        self.requires_approval: bool | ApprovalPolicy = False
        self.allowed_decisions: tuple[DecisionKind, ...] = ("approve", "edit", "reject")
        self.approvers: tuple[str, ...] = ()
        self.approval_description: str | ApprovalDescription | None = None
        self.on_approval: ApprovalCallback | None = None
        self.input_guardrails: tuple[InputGuardrail, ...] = ()
        self.output_guardrails: tuple[OutputGuardrail, ...] = ()
        self.once: bool | None = None
        self.timeout: float | None = None
        self.schema: Mapping[str, Any] | type[BaseModel] | None = None
        self.source: str | None = None
        """Where the tool is from, when it is not this program's own: an MCP server."""
        self._description: str | None = None
        self._local_names = _local_names
        self._hints: dict[str, Any] | None = None
        self._signature: Signature = _read_signature(function)
        self._parameters: Parameters | None = None
        self._edit_schema: tuple[Parameters, dict[str, Any] | None] | None = None
        self._filled = FilledParameters(None, {}, False)
        self._doc: DocString = read_docstring(target)

    def __repr__(self) -> str:
        return f"<Tool {self.name}>"

    @classmethod
    def with_parameters(cls, function: Callable[..., Any], parameters: Parameters, **options: Any) -> Tool[..., Any]:
        """A tool whose parameters come from elsewhere than its function; `options` are those of `tool`."""
        made: Tool[..., Any] = cls(function)
        made._parameters = parameters
        made._find_filled(resolve_hints(function, None))
        _apply(made, options, from_tool=False)
        return made

    @property
    def description(self) -> str:
        """What the model is told it does; by default the docstring without its parameter section."""
        return self._doc.description if self._description is None else self._description

    @property
    def is_async(self) -> bool:
        """Whether the function is `async def`; a plain one runs in a thread."""
        return is_async(self.function)

    @property
    def goes_on(self) -> bool:
        """Whether what it does may go on when its time is over: a thread cannot be stopped."""
        return not self.is_async or bool(getattr(self.function, GOES_ON, False))

    @property
    def takes_resources(self) -> bool:
        """Whether its agent's resources are opened before it begins: it takes one, or a `RunContext` that has them."""
        _ = self.parameters
        return self._filled.takes_resources

    @property
    def needed_resource(self) -> str | None:
        """The name of a parameter that it cannot be called without, and that only an agent with resources can fill."""
        _ = self.parameters
        return self._filled.needed

    @property
    def parameters(self) -> Parameters:
        """What it takes; `TypeError` when an annotation cannot be resolved or described as JSON."""
        if self._parameters is None:
            try:
                self._build_parameters()
            except NameError as error:
                raise TypeError(
                    f"tool {self.name!r} has an annotation that names {error.name!r}, which is not defined\n\n"
                    "hint: define it before the tool, at module level"
                ) from error
            self._refuse_hidden()
        assert self._parameters is not None
        return self._parameters

    @property
    def definition(self) -> dict[str, Any]:
        """The tool as a model request lists it: `{"type": "function", "function": {...}}`."""
        function = {"name": self.name, "description": self.description, "parameters": self.parameters.json_schema}
        return {"type": "function", "function": function}

    @property
    def edit_schema(self) -> dict[str, Any] | None:
        """What edited arguments must be, for those who check an answer; None where they could not check it."""
        if self._edit_schema is None or self._edit_schema[0] is not self.parameters:
            self._edit_schema = self.parameters, self._usable_schema()
        return self._edit_schema[1]

    def _usable_schema(self) -> dict[str, Any] | None:
        schema = self.parameters.edit_schema
        try:
            _core.check_response_schema(schema)
        except ValueError as error:
            # pydantic's patterns may look ahead, an MCP server's schema may refer to other documents.
            logger.warning("arguments of tool %s cannot be edited, its schema is not usable: %s", self.name, error)
            return None
        return schema

    def check(self, given: Mapping[str, Any]) -> Arguments:
        """Check and convert arguments; raises `InvalidArguments`."""
        return self.parameters.check(given)

    def call_bare(self, /, *args: Any, **kwargs: Any) -> Any:
        """The function itself, with an empty `RunContext` where it wants one and was given none."""
        _ = self.parameters
        context = self._filled.context
        if context is not None and context not in kwargs:
            names = [parameter.name for parameter in self._signature.parameters]
            if names.index(context) >= len(args):
                kwargs = {**kwargs, context: RunContext()}
        return self.function(*args, **kwargs)

    def bind(self, arguments: Arguments, context: RunContext[Any]) -> functools.partial[Any]:
        """The function with everything it is called with; raises `NoSuchResource`."""
        _ = self.parameters  # says what the run fills in
        values = {**arguments.values, **self._filled.values(context)}
        positional = []
        for parameter in self._signature.parameters:
            if parameter.kind is not parameter.POSITIONAL_ONLY:
                break
            if parameter.name not in values:
                break
            positional.append(values.pop(parameter.name))
        return functools.partial(self.function, *positional, **values)

    @overload
    async def call(self: Tool[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs) -> T: ...
    @overload
    async def call(self: Tool[P, R_co], /, *args: P.args, **kwargs: P.kwargs) -> R_co: ...
    async def call(self, /, *args: Any, **kwargs: Any) -> Any:
        """Call the tool from Python, with everything a model's call goes through.

        Raises `InvalidArguments`, `ToolRejected`, and whatever the tool raises.
        """
        # Late: a tool is made without the runtime that its calls go through.
        from hitl.tools.approvals import call_tool

        return await call_tool(self, self._name_arguments(args, kwargs))

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """As `call`; a tool made from a plain `def` blocks, and does so only outside an event loop."""
        # Late, as in `call`.
        from hitl.tools.approvals import call_tool_from_python

        result: R_co = call_tool_from_python(self, args, kwargs)
        return result

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Tool[P, R_co]: ...
    @overload
    def __get__(
        self: Tool[Concatenate[Any, Q], R_co], instance: object, owner: type | None = None
    ) -> Tool[Q, R_co]: ...
    def __get__(self, instance: object, owner: type | None = None) -> Any:
        if instance is None or not _is_bound(self.function):
            return self
        bound = copy.copy(self)
        bound.function = functools.partial(self.function, instance)  # type: ignore[arg-type]
        return bound

    def _name_arguments(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments of a call from Python, by name; what the run fills in and was handed over by hand is dropped."""
        _ = self.parameters
        filled = self._filled.names
        names = [p.name for p in self._signature.parameters if p.name not in filled]
        if len(args) > len(names):
            raise TypeError(f"{self.name}() takes {len(names)} arguments, got {len(args)}")
        named = dict(zip(names, args, strict=False))
        twice = named.keys() & kwargs.keys()
        if twice:
            raise TypeError(f"{self.name}() got several values for {min(twice)!r}")
        return named | {name: value for name, value in kwargs.items() if name not in filled}

    def _build_parameters(self) -> None:
        if self._hints is None:
            self._hints = resolve_hints(self.function, self._local_names)
        hints = self._hints
        self._find_filled(hints)
        visible = [parameter for parameter in self._signature.parameters if parameter.name not in self._filled.names]
        if self.schema is None:
            if self._signature.open:
                raise TypeError(
                    f"tool {self.name!r} takes **kwargs, which a model cannot be told about\n\n"
                    "hint: name the parameters, or pass schema=..."
                )
            fixed = self.function.keywords if isinstance(self.function, functools.partial) else ()
            self._parameters = FunctionParameters(self.name, visible, hints, self._doc, fixed)
        elif isinstance(self.schema, type):
            self._parameters = ModelParameters(self.schema)
        else:
            self._parameters = SchemaParameters(self.schema)
        self._local_names = None

    def _refuse_hidden(self) -> None:
        """`TypeError` for a gated tool whose arguments nobody could be shown: none of its calls would pass."""
        if self.requires_approval is False or self._parameters is None:
            return
        hidden = self._parameters.find_hidden()
        if hidden is not None:
            raise TypeError(
                f"tool {self.name!r} needs approval, and {hidden}\n\n"
                "hint: whoever approves a call must see everything that it runs with; take what is secret from the "
                "RunContext instead"
            )

    def _find_filled(self, hints: Mapping[str, Any]) -> None:
        """Which parameters the run fills in."""
        self._filled = read_filled(self.name, (p.name for p in self._signature.parameters), hints)

    def _known_names(self) -> frozenset[str] | None:
        """Parameter names for checking guardrails, also while annotations cannot be resolved yet."""
        if self._parameters is not None:
            return self._parameters.names
        if self.schema is not None:
            return self.parameters.names
        return frozenset(parameter.name for parameter in self._signature.parameters)


def _is_bound(function: Callable[..., Any]) -> bool:
    """Whether Python hands a function that is looked up on an object this object: not one that has its own, or none."""
    if isinstance(function, functools.partial):
        return takes_object(function)
    return hasattr(type(function), "__get__") and not isinstance(function, staticmethod | types.MethodType)


def _read_signature(function: Callable[..., Any]) -> Signature:
    try:
        return read_signature(function)
    except ValueError as error:
        raise TypeError(
            f"tool() cannot read the signature of {function!r}\n\nhint: wrap it in a def with named parameters"
        ) from error


@overload
def tool(
    fn: Callable[P, R] | Tool[P, R],
    *,
    name: str | None = ...,
    description: str | None = ...,
    schema: Mapping[str, Any] | type[BaseModel] | None = ...,
    requires_approval: bool | ApprovalPolicy = ...,
    allowed_decisions: Iterable[DecisionKind] = ...,
    approvers: Iterable[str] | None = ...,
    approval_description: str | ApprovalDescription | None = ...,
    on_approval: ApprovalCallback | None = ...,
    input_guardrails: Iterable[Guardrail] | None = ...,
    output_guardrails: Iterable[Guardrail] | None = ...,
    once: bool | None = ...,
    timeout: float | None = ...,
) -> Tool[P, R]: ...


@overload
def tool(
    fn: None = None,
    *,
    name: str | None = ...,
    description: str | None = ...,
    schema: Mapping[str, Any] | type[BaseModel] | None = ...,
    requires_approval: bool | ApprovalPolicy = ...,
    allowed_decisions: Iterable[DecisionKind] = ...,
    approvers: Iterable[str] | None = ...,
    approval_description: str | ApprovalDescription | None = ...,
    on_approval: ApprovalCallback | None = ...,
    input_guardrails: Iterable[Guardrail] | None = ...,
    output_guardrails: Iterable[Guardrail] | None = ...,
    once: bool | None = ...,
    timeout: float | None = ...,
) -> Callable[[Callable[P, R] | Tool[P, R]], Tool[P, R]]: ...


def tool(
    fn: Callable[..., Any] | Tool[..., Any] | None = None,
    *,
    name: str | None = _UNSET,
    description: str | None = _UNSET,
    schema: Mapping[str, Any] | type[BaseModel] | None = _UNSET,
    requires_approval: bool | ApprovalPolicy = _UNSET,
    allowed_decisions: Iterable[DecisionKind] = _UNSET,
    approvers: Iterable[str] | None = _UNSET,
    approval_description: str | ApprovalDescription | None = _UNSET,
    on_approval: ApprovalCallback | None = _UNSET,
    input_guardrails: Iterable[Guardrail] | None = _UNSET,
    output_guardrails: Iterable[Guardrail] | None = _UNSET,
    once: bool | None = _UNSET,
    timeout: float | None = _UNSET,
) -> Any:
    """Make a tool of a function, or a changed copy of a tool; with no function, a decorator.

    Args:
        fn: A plain or async function. Parameters, their types and their texts come from hints and docstring. Given
            a `Tool`, only what is named here changes; the given one stays as it is.
        name: What the model calls it (default: the function's name).
        description: What the model is told (default: the docstring).
        schema: A JSON Schema or pydantic model in place of the one from the hints.
        requires_approval: Whether a person approves each call first: True, False, or a plain or async callable
            `(ctx, args) -> bool`. It is asked once per call; raising, or returning no bool, means yes.
        allowed_decisions: What a person may answer: "approve", "edit", "reject", "respond" (in the tool's place).
        approvers: Who alone may answer: names of keys, and `group:<name>`. On a server; in `hitl.run` whoever holds the
            run decides.
        approval_description: Said to the person beside the arguments: a str, or a plain or async callable
            `(ctx, args) -> str`.
        on_approval: A plain or async callable `(ApprovalRequest) -> Decision | None` that decides in code, without a
            pause, about calls that need approval; None, raising or anything else means that a person is asked.
        input_guardrails: See `hitl.tools.guardrails`.
        output_guardrails: See `hitl.tools.guardrails`.
        once: A crash while it ran makes it a question, not a retry. None: true for a call a person approved.
        timeout: Seconds of work, after any approval, until the call is a tool error. It stops an async function; any
            other one runs on in its thread, and the model is told that it may still take effect.

    Raises:
        TypeError: For what cannot work: a parameter JSON cannot describe, a guardrail that names a parameter the
            tool lacks, an option of the wrong type.
        ValueError: For an invalid name, schema, decision or timeout.

    Example:
        @tool(requires_approval=True, approvers=["group:finance"], timeout=30)
        async def refund(order: str, cents: int) -> str:
            '''Pay money back.'''
            return f"refunded {cents} for {order}"

        small = tool(refund, requires_approval=lambda ctx, args: args["cents"] > 1000)
    """
    changes = {
        option: value
        for option, value in {
            "name": name,
            "description": description,
            "schema": schema,
            "requires_approval": requires_approval,
            "allowed_decisions": allowed_decisions,
            "approvers": approvers,
            "approval_description": approval_description,
            "on_approval": on_approval,
            "input_guardrails": input_guardrails,
            "output_guardrails": output_guardrails,
            "once": once,
            "timeout": timeout,
        }.items()
        if value is not _UNSET
    }
    frame = sys._getframe(1)
    # Annotations written as strings may name what only the decorating function can see.
    local_names = frame.f_locals if frame.f_locals is not frame.f_globals else None

    def make(function: Callable[..., Any] | Tool[..., Any]) -> Tool[..., Any]:
        return make_tool(function, changes, local_names)

    return make if fn is None else make(fn)


def make_tool(
    function: Callable[..., Any] | Tool[..., Any], changes: Mapping[str, Any], local_names: Mapping[str, Any] | None
) -> Tool[..., Any]:
    """A tool of a function, or a changed copy of the tool that it is, or has behind it (`hitl.requires_approval`)."""
    known: Any = function if isinstance(function, Tool) else getattr(function, TOOL_ATTRIBUTE, None)
    made = copy.copy(known) if isinstance(known, Tool) else Tool(function, _local_names=local_names)
    _apply(made, changes, from_tool=isinstance(known, Tool))
    return made


def _apply(made: Tool[..., Any], changes: Mapping[str, Any], *, from_tool: bool) -> None:
    """Set the named options, each checked; then everything that follows from them."""
    for option, value in changes.items():
        if option not in SETTERS:
            from difflib import get_close_matches  # late: only for whoever is mistaken

            near = "".join(f"\n\nhint: did you mean {each}?" for each in get_close_matches(option, SETTERS, 1))
            raise TypeError(f"tool {made.name!r} has no option {option!r}{near}")
        SETTERS[option](made, value)
    set_name(made, made.name)  # a lambda's own name is none that a model could call
    if "schema" in changes:
        made._parameters = None
    if made._parameters is None:
        # A forward reference is resolved at the first use, which says so if it still cannot.
        with contextlib.suppress(NameError):
            made._build_parameters()
    made._refuse_hidden()
    if "input_guardrails" in changes or (from_tool and "schema" in changes):
        functions = changes.get("input_guardrails", [guardrail.function for guardrail in made.input_guardrails])
        made.input_guardrails = read_input_guardrails(made.name, functions, made._known_names())
    if "output_guardrails" in changes:
        made.output_guardrails = read_output_guardrails(made.name, changes["output_guardrails"])
