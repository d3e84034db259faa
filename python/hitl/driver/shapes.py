"""What may be served as an agent, and the one shape that everything else sees.

Accepted: an async function ``(message, state)``; a plain one, which runs in a thread; an object with
``run_turn(message, state)``, or one that is callable like that, async or plain; an agent of a framework that
``hitl.driver.adapters`` knows; and a factory of any of them, a callable without parameters.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

from hitl.driver.adapters import accepted, adapt
from hitl.driver.declaring import DeclaringAgent, check_context_from
from hitl.errors import AgentLoadError
from hitl.messages import ChatMessage

if TYPE_CHECKING:
    from hitl.driver.requests import ContextFrom
    from hitl.turn.resources import Source

OPTIONS_ATTRIBUTE = "__hitl_agent__"
"""Where ``@hitl.agent(...)`` leaves its options."""

OutputT_co = TypeVar("OutputT_co", covariant=True)

AgentResult: TypeAlias = tuple[ChatMessage, list[ChatMessage]]
"""The response, and the session's messages after the turn."""


class TurnRunner(Protocol):
    """An object that runs turns; its method may be async or plain, and its parameters have any names."""

    def run_turn(self, message: ChatMessage, state: list[ChatMessage], /) -> Awaitable[AgentResult] | AgentResult:
        """Answer one message."""


class PydanticAIAgent(Protocol):
    """What a type checker, which may have no pydantic-ai, knows of its agents."""

    @property
    def output_type(self) -> Any:
        """What its runs return."""

    @property
    def toolsets(self) -> Sequence[Any]:
        """What its model may call."""


class StrandsAgent(Protocol):
    """What a type checker, which may have no Strands, knows of its agents, graphs and swarms."""

    @property
    def hooks(self) -> Any:
        """Who is told of what they do."""

    @property
    def stream_async(self) -> Callable[..., Any]:
        """Runs them."""


class OpenAIAgent(Protocol):
    """What a type checker, which may have no OpenAI Agents SDK, knows of its agents."""

    @property
    def handoffs(self) -> Sequence[Any]:
        """Whom it hands over to."""

    @property
    def tool_use_behavior(self) -> Any:
        """What becomes of what its tools return."""


class CompiledGraph(Protocol):
    """What a type checker, which may have no LangGraph, knows of its graphs."""

    @property
    def nodes(self) -> Any:
        """What runs."""

    @property
    def channels(self) -> Any:
        """What they share."""


class TypedAgent(Protocol[OutputT_co]):
    """An agent that says what its answers are, as `ReActAgent(output_type=...)` does."""

    def run_turn(self, message: ChatMessage, state: list[ChatMessage], /) -> Awaitable[AgentResult] | AgentResult:
        """Answer one message."""

    def output_of(self, answer: ChatMessage, messages: list[ChatMessage], /) -> OutputT_co:
        """What the answer is that ended a conversation."""


RunnableAgent: TypeAlias = (
    Callable[[ChatMessage, list[ChatMessage]], Awaitable[AgentResult] | AgentResult]
    | TurnRunner
    | PydanticAIAgent
    | StrandsAgent
    | OpenAIAgent
    | CompiledGraph
)
"""What runs turns, or is made to."""


Agent: TypeAlias = RunnableAgent | Callable[[], RunnableAgent | Awaitable[RunnableAgent]]
"""What may be given where an agent is taken: a function ``(message, state)``, async or plain, an object with
``run_turn(message, state)``, an agent of a framework, or a function without parameters that makes one of them."""


class AgentOptions(NamedTuple):
    """What ``@hitl.agent(...)`` was given."""

    replay: bool = True
    pin: bool = False
    name: str | None = None
    version: str | None = None
    resources: Source[Any] | None = None
    context_from: ContextFrom | None = None


@dataclass(frozen=True, slots=True)
class LoadedAgent:
    """An agent that can run turns. ``run`` must be called inside a turn."""

    name: str
    options: AgentOptions
    _call: Callable[[ChatMessage, list[ChatMessage]], Any]
    _is_async: bool
    target: Any = None
    """The object that was given, or what an adapter made of it."""
    _factory: _Factory | None = None
    """Where it makes the agent of each turn instead of being one."""
    resources: Source[Any] | None = None
    """What its tools need and cannot be stored: see ``hitl.resources``."""
    resources_are_given: bool = False
    """Whether they are in the place of all that agents declare."""
    context_from: ContextFrom | None = None
    module: str | None = None
    """Where it was imported from by name; None of one that was given as an object."""

    def given(self, owner: str, resources: Any = None, context_from: Any = None) -> LoadedAgent:
        """The same with what whoever runs it puts in the place of what it declares; None keeps that. TypeError, which
        names ``owner``, for what can be neither."""
        agent = self
        if resources is not None:
            # Late: most agents have none of these, and `@hitl.agent` asks for shapes only.
            from hitl.turn.resources import given

            agent = replace(agent, resources=given(owner, resources), resources_are_given=True)
        if context_from is not None:
            agent = replace(agent, context_from=check_context_from(owner, context_from))
        return agent

    def output_of(self, answer: ChatMessage, messages: list[ChatMessage]) -> Any:
        """What the answer is that ended a conversation: its text, or what the agent makes of it."""
        read = getattr(self.target, "output_of", None)
        return (answer.content or "") if read is None else read(answer, messages)

    async def run(self, message: ChatMessage, state: list[ChatMessage]) -> AgentResult:
        """One turn: the response, and the session's messages after it. TypeError when it returns no such pair."""
        # Late: `@hitl.agent` asks for shapes only, and not for what runs them.
        from hitl.turn.runtime import current_turn

        turn = current_turn("agent")
        if turn.has_settings:
            # Late: few runs have any, and what a worker imports is paid by each.
            from hitl.driver.settings import set_settings

            await set_settings(turn)
        return await self._run_in_context(message, state)

    async def _run_in_context(self, message: ChatMessage, state: list[ChatMessage]) -> AgentResult:
        if self.context_from is not None:
            # Late, as above.
            from hitl.driver.requests import set_context
            from hitl.turn.runtime import current_turn

            await set_context(current_turn("agent"), self.context_from, message)
        return await self._run(message, state)

    async def _run(self, message: ChatMessage, state: list[ChatMessage]) -> AgentResult:
        if self._factory is not None:
            return await self._factory.run(self, message, state)
        if self._is_async:
            result = await self._call(message, state)
        else:
            # Late: `@hitl.agent` asks for shapes only, and not for what runs them.
            from hitl.turn.runtime import current_turn

            result = await current_turn("agent").run_in_thread(self._call, message, state)
            if inspect.isawaitable(result):  # a lambda, a partial or a decorator around an async function
                result = await result
        return check_result(result)


def as_agent(candidate: Any, what: str = "agent") -> LoadedAgent:
    """Any accepted shape as a LoadedAgent. AgentLoadError, with a hint, for all else; ``what`` names it there."""
    if isinstance(candidate, LoadedAgent):
        return candidate
    if inspect.isclass(candidate):
        raise AgentLoadError(
            f"{what} is the class {candidate.__name__}, not an agent",
            f"make an instance of it: {candidate.__name__}(...); {accepted()}",
        )
    adapted = adapt(candidate, what)
    if adapted is not None:
        candidate = adapted
    options = getattr(candidate, OPTIONS_ATTRIBUTE, None)
    if not isinstance(options, AgentOptions):
        options = _DEFAULT_OPTIONS
    name = options.name or _name_of(candidate)
    call, label = _entry_point(candidate, what)
    kind = _kind_of(call, label)
    factory = _Factory(call, label) if kind == "factory" else None
    resources, context_from = options.resources, options.context_from
    if isinstance(candidate, DeclaringAgent):
        resources = candidate.resources if resources is None else resources
        context_from = candidate.context_from if context_from is None else context_from
    return LoadedAgent(
        name, options, call, kind != "plain", candidate, factory, resources=resources, context_from=context_from
    )


class _Factory:
    """Makes the agent of each turn; of one that goes on from its journal, once more."""

    def __init__(self, make: Callable[[], Any], label: str) -> None:
        self._make = make
        self._label = label

    async def run(self, by: LoadedAgent, message: ChatMessage, state: list[ChatMessage]) -> AgentResult:
        """A turn of the agent that is made. ``by``: the factory as it was loaded. Its ``context_from`` goes before the
        agent's, and was called by now; its resources stand back behind the agent's."""
        made = self._make()
        if inspect.isawaitable(made):
            made = await made
        loaded = as_agent(made, f"what {self._label}() returned")
        # Late, as in `LoadedAgent.run`.
        from hitl.turn.runtime import current_turn

        if current_turn("agent").settings:
            # Late, as there.
            from hitl.driver.settings import refuse_settings

            refuse_settings(loaded.name, loaded.target)
        run = loaded._run_in_context
        if by.context_from is not None:
            run = replace(loaded, context_from=by.context_from)._run
        if loaded.resources is None:
            return await run(message, state)
        # Late: most agents have none.
        from hitl.turn.resources import resources_at_work

        token = resources_at_work.set(loaded.resources)
        try:
            return await run(message, state)
        finally:
            resources_at_work.reset(token)


def check_result(result: Any) -> AgentResult:
    """The agent's ``(response, state)``, checked: what it returned goes to other people's programs."""
    if not isinstance(result, tuple):
        raise TypeError(f"Agent must return a (response, state) tuple, got {type(result).__name__}")
    if len(result) != 2:
        raise TypeError(f"Agent must return a (response, state) tuple, got a tuple of {len(result)}")
    response, state = result
    if not isinstance(response, ChatMessage):
        raise TypeError(f"Agent must return a ChatMessage as its response, got {type(response).__name__}")
    if not isinstance(state, list):
        raise TypeError(f"Agent must return a list of ChatMessage as its state, got {type(state).__name__}")
    for index, item in enumerate(state):
        if not isinstance(item, ChatMessage):
            raise TypeError(
                f"Agent must return a list of ChatMessage as its state, got {type(item).__name__} at {index}"
            )
        _check_sendable(f"its state, at {index}", item)
    _check_sendable("its response", response)
    return response, state


def _check_sendable(what: str, message: ChatMessage) -> None:
    """Once more: fields can be assigned to, and what a list or a dict of theirs holds can be changed."""
    try:
        message.check()
    except (TypeError, ValueError) as wrong:
        raise TypeError(f"Agent must return a ChatMessage that can be sent as {what}: {wrong}") from wrong


def _entry_point(candidate: Any, what: str) -> tuple[Callable[..., Any], str]:
    run_turn = getattr(candidate, "run_turn", None)
    if callable(run_turn):
        return run_turn, f"{what}.run_turn"
    if type(candidate).__module__.startswith("hitl.tools."):
        # It can be called with two arguments, as an agent is: each message would be refused as what they are not.
        name = _name_of(candidate)
        raise AgentLoadError(f"{what} is the tool {name}, not an agent", f"give it to one: ReActAgent(tools=[{name}])")
    if callable(candidate):
        return candidate, what
    raise AgentLoadError(
        f"{what} is of type {type(candidate).__name__}, not an agent",
        accepted(),
    )


def _is_of_hitl(module: str) -> bool:
    """Whether it is of this package, whose examples alone have agents."""
    package, _, rest = module.partition(".")
    return package == "hitl" and not rest.startswith("examples")


_DEFAULT_OPTIONS = AgentOptions()
_Kind: TypeAlias = Literal["async", "plain", "factory"]

_functions: WeakKeyDictionary[Any, _Kind] = WeakKeyDictionary()
"""Functions that were found to be agents, and how they are called: to look takes longer than the rest of a run's
start."""
_methods: WeakKeyDictionary[Any, _Kind] = WeakKeyDictionary()
"""The same of functions of methods, which take one argument more."""


def _kind_of(call: Callable[..., Any], label: str) -> _Kind:
    """How it is called. AgentLoadError for what cannot be called as an agent."""
    function: Any = call
    if inspect.isfunction(call):
        known = _functions
    elif inspect.ismethod(call):
        known, function = _methods, call.__func__
    else:
        return _check(call, label)
    kind = known.get(function)
    if kind is None:
        kind = known[function] = _check(call, label)
    return kind


def _check(call: Callable[..., Any], label: str) -> _Kind:
    if _takes_nothing(call, label):
        if inspect.isfunction(call) and _is_of_hitl(call.__module__):
            # `module:tool` where the module imports the decorator: every turn would fail over what it makes.
            raise AgentLoadError(f"{label} is {call.__qualname__} of {call.__module__}, not an agent", accepted())
        return "factory"
    if inspect.isasyncgenfunction(call) or inspect.isgeneratorfunction(call):
        raise AgentLoadError(
            f"{label} is a generator, not an agent",
            "return (response, state) instead of yielding; models stream by themselves",
        )
    return "async" if _is_async(call) else "plain"


def _takes_nothing(call: Callable[..., Any], label: str) -> bool:
    """Whether it makes an agent instead of being one; AgentLoadError where it cannot be called as either."""
    try:
        signature = inspect.signature(call)
    except (TypeError, ValueError):  # a builtin or an extension's callable: nothing to check before it is called
        return False
    try:
        signature.bind(None, None)
    except TypeError as error:
        if not label.endswith(".run_turn") and _makes(signature):
            return True
        raise AgentLoadError(
            f"{label} takes {signature}, and cannot be called with (message, state)",
            "write it as: async def agent(message: ChatMessage, state: list[ChatMessage])",
        ) from error
    return False


def _makes(signature: inspect.Signature) -> bool:
    """Whether it can be called without arguments, and may return something."""
    if signature.return_annotation in (None, "None"):
        return False
    try:
        signature.bind()
    except TypeError:
        return False
    return True


def _is_async(call: Callable[..., Any]) -> bool:
    while isinstance(call, functools.partial):
        call = call.func
    if inspect.iscoroutinefunction(call):
        return True
    return not inspect.isroutine(call) and inspect.iscoroutinefunction(getattr(type(call), "__call__", None))  # noqa: B004


def _name_of(candidate: Any) -> str:
    while isinstance(candidate, functools.partial):
        candidate = candidate.func
    for attribute in ("name", "__name__"):
        name = getattr(candidate, attribute, None)
        if isinstance(name, str) and name:
            return name
    return type(candidate).__name__
