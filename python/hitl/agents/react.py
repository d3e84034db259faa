"""`ReActAgent`: a model, tools, and the loop between them."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from hitl.agents.abandoned import tell_abandoned
from hitl.agents.compaction import Compaction
from hitl.agents.conversation import Conversation, ConversationLimits, guard_message
from hitl.agents.handoffs import HANDOFF_PREFIX, agent_in_charge, handoff_tools, read_handoffs, snake_case
from hitl.agents.history import HistoryProcessor, read_processors
from hitl.agents.limits import InvalidOutput
from hitl.agents.limits import MaxStepsExceeded as MaxStepsExceeded
from hitl.agents.namesakes import INNER_AGENT, told_apart
from hitl.agents.participant import Participant
from hitl.agents.seams import Hook, Middleware, read_hooks
from hitl.agents.tool_calls import check_names
from hitl.driver.declaring import DeclaringAgent, check_context_from
from hitl.messages import ChatMessage
from hitl.model_settings import ModelSettings, check_settings
from hitl.models.chat_client import ChatClient, ResponseFormat
from hitl.tools.context import ApprovalPolicy, SystemPrompt
from hitl.tools.definition import GOES_ON, Tool, is_tool_name, tool
from hitl.tools.guardrails import Guardrail, OutputGuardrail, read_output_guardrails
from hitl.tools.hints import takes_object
from hitl.turn.callables import check_listed, check_takes
from hitl.turn.permits import permit
from hitl.turn.resources import Resources, check_declared
from hitl.turn.retrying import Transient, check_retries
from hitl.turn.runtime import Turn, agent_name, current_turn
from hitl.turn.stopwatch import limit

if TYPE_CHECKING:
    import typing_extensions
    from typing_extensions import TypeForm

    from hitl.driver.requests import ContextFrom
    from hitl.tools.mcp import MCPTools

    # With a default, which checkers know and Python does not yet: an agent without `output_type` answers in text.
    OutputT = typing_extensions.TypeVar("OutputT", default=str)
    ToolLike = Tool[..., Any] | Callable[..., Any] | MCPTools

else:
    OutputT = TypeVar("OutputT")


class ReActAgent(Participant, DeclaringAgent, Generic[OutputT]):
    """An agent that lets a model call tools until it answers.

    One agent may run many turns at once; it keeps nothing between them. The session's state holds the conversation
    (user, assistant and tool messages), not the system prompt, so that a changed prompt holds for old sessions too.

    Example:
        agent = ReActAgent(model_name="gpt-4.1", system_prompt="You look after files.", tools=[delete_file])
        result = await hitl.run(agent, "delete the old logs file")
    """

    def __init__(
        self,
        client: ChatClient | None = None,
        model_name: str | None = None,
        name: str | None = None,
        system_prompt: str | SystemPrompt | None = None,
        tools: Iterable[ToolLike] = (),
        handoffs: Sequence[ReActAgent[Any]] = (),
        middleware: Sequence[Any] = (),
        hooks: Sequence[Hook] = (),
        response_format: Any = None,
        max_steps: int = 20,
        timeout: float | None = None,
        input_guardrails: Iterable[Guardrail] | None = None,
        output_guardrails: Iterable[Guardrail] | None = None,
        description: str | None = None,
        retries: int | None = None,
        transient: Transient | None = None,
        settings: ModelSettings | None = None,
        output_type: TypeForm[OutputT] = str,  # type: ignore[assignment]  # as OutputT is by default
        output_retries: int | None = None,
        token_limit: int | None = None,
        max_parallel_tools: int | None = None,
        history_processors: Iterable[HistoryProcessor | Compaction] = (),
        compaction: Compaction | None = None,
        resources: Resources[Any] | None = None,
        context_from: ContextFrom | None = None,
    ):
        """
        Args:
            client: Where replies come from; by default `OpenAIChatClient()`, made when it is first needed.
            model_name: The model, as the client's provider calls it; by default the environment's `HITL_MODEL`,
                else the client's own `default_model` where it has one.
            name: What interrupts call this agent.
            system_prompt: Instructions, sent first with every request: a text, or a function of the `RunContext`, plain
                or async, that is called once in a turn, when the agent gets the conversation. What it returns is
                recorded and holds until the turn is over; what it raises fails the turn.
            tools: `@tool`s, plain functions (made tools) and `MCPTools`; two of one name are a `ValueError`.
            handoffs: Agents that the model may give the conversation to, by the tool `transfer_to_<name>`; they need a
                name. `agent.handoffs` is a list that may grow while agents are put together, so that two can hand over
                to each other.
            middleware: Objects with hooks as `hitl.middleware.AgentMiddleware` has them, one at least.
            hooks: Functions of a `HookCall`, called before each tool call; a str that one returns is the call's result
                in the place of the tool's.
            response_format: The old name of `output_type`; with it alone, `output_retries` is without limit by default.
            max_steps: How often models may be asked in a turn, also after a handoff; beyond it `MaxStepsExceeded`,
                and where nobody catches that the turn is suspended: each retry grants as many more. An agent that is
                called as a tool counts its own.
            timeout: Seconds a turn may work, else a `TimeoutError` that ends it; neither the time people take to answer
                nor the pause before a model is tried again counts. A turn that was suspended has it anew when retried.
            input_guardrails: Called with the message of the turn. None keeps it; a `ChatMessage` or str replaces it
                or its text; raising fails the turn.
            output_guardrails: The same for the final message.
            description: What the models of other agents are told about this one.
            retries: How often its model is asked again after an error that may pass, as the client says which do; None
                for the client's own, 2 for one that says nothing.
            transient: What becomes of such an error when all tries are used up: "suspend" keeps the turn until it is
                retried, "raise" ends it; None for the client's own.
            settings: How its model is asked, as `ModelSettings` has it: `{"temperature": 0}`. A `tool_choice` that
                makes the model call a tool holds until it has called one in the turn.
            output_type: What the final message must be, as JSON: a pydantic model, dataclass or TypedDict, or any other
                type that pydantic reads, which the model then writes as `{"result": ...}`. A message that is not is
                shown to the model with what is wrong. The value is the `output` of a run; `parse` reads it elsewhere.
            output_retries: How often the model is told so in a turn, 2 by default; beyond it `InvalidOutput`.
            token_limit: How many tokens models may take in a turn, counted as `max_steps` counts: where one is to be
                asked again beyond it, `TokenLimitExceeded`.
            max_parallel_tools: How many tools of a reply may run at once. A call that waits for its approval does not
                count; a tool that asks while it runs does.
            history_processors: Functions `(ctx, messages) -> messages`, called before each request, one after the
                other: what the model is shown instead. What they return is recorded. One of them may be a `Compaction`:
                it sums up what those before it have left. These leave messages out or assign to their fields; those
                after it return any messages.
            compaction: When a conversation that gets too long is summed up for the model, and how: the short form of a
                `Compaction` that is the first of `history_processors`.
            resources: What its tools need and cannot be stored, pools and clients: see `hitl.resources`. An agent
                without any has those of the agent that called it or handed over to it.
            context_from: Makes `RunContext.context` of a `TurnRequest`, once for each turn that is given none; a plain
                or async function. What it returns is stored in the journal.

        Of the agent that is given to a run: `input_guardrails`, `max_steps`, `token_limit`, `timeout` and
        `context_from`. Everything else is that of the agent that has the conversation.

        `MaxStepsExceeded`, `TokenLimitExceeded`, `InvalidOutput` and `ReplyCutShort`, for a reply that its provider cut
        off, say where a retry of the turn lets it go on.

        Raises:
            TypeError: For an option of the wrong type, a middleware or hook that is none, for both of `output_type` and
                its old name, and for a `Compaction` in both places.
            ValueError: For a number or setting that cannot be, for two tools of one name, for a gate of a tool that
                it does not have, and for two `Compaction`s.
        """
        if client is not None and not callable(getattr(client, "complete", None)):
            raise TypeError(f"ReActAgent: client must have `async complete(request)`, got {type(client).__name__}")
        given: object = client
        if isinstance(given, type):
            kind = given.__name__
            raise TypeError(f"ReActAgent: client is the class {kind}\n\nhint: make an instance of it: {kind}()")
        texts = {"model_name": model_name, "name": name, "description": description}
        if callable(system_prompt):
            check_takes("ReActAgent: system_prompt", system_prompt, "the RunContext")
        else:
            texts["system_prompt"] = system_prompt
        for option, text in texts.items():
            if text is not None and not isinstance(text, str):
                raise TypeError(f"ReActAgent: {option} must be a str or None, got {type(text).__name__}")
        _check_number("max_steps", max_steps, 1)
        for option, number in (("token_limit", token_limit), ("max_parallel_tools", max_parallel_tools)):
            if number is not None:
                _check_number(option, number, 1)
        if output_retries is not None:
            _check_number("output_retries", output_retries, 0)
        if output_type is not str and response_format is not None:
            raise TypeError("ReActAgent: response_format is the old name of output_type; give one of them")
        check_retries("ReActAgent", retries, "suspend" if transient is None else transient)
        if timeout is not None:
            _check_seconds(timeout)
        self.name = name
        self.description = description
        self.model_name = model_name
        self.system_prompt = system_prompt
        self.max_steps = max_steps
        self.timeout = timeout
        self.retries = retries
        self.transient = transient
        self.settings = check_settings("ReActAgent", settings)
        self.resources = check_declared("ReActAgent", resources)
        self.context_from = check_context_from("ReActAgent", context_from)
        check_listed("ReActAgent", "handoffs", handoffs)
        check_listed("ReActAgent", "middleware", middleware)
        check_listed("ReActAgent", "hooks", hooks)
        check_listed("ReActAgent", "history_processors", history_processors)
        self.handoffs: list[ReActAgent[Any]] = read_handoffs(handoffs)
        """Who the conversation may be given to."""
        self.middleware = Middleware(middleware)
        self.hooks = read_hooks(hooks)
        self._client = client
        own, self.sources = _sort_tools(tools)
        """MCP servers, whose tools each turn lists."""
        self.tools: tuple[Tool[..., Any], ...] = self.middleware.wrap_tools(own)
        """The agent's own tools; without handoffs and those of MCP servers."""
        check_names([*self.tools, *handoff_tools(self.handoffs)])  # an error here, not in the first turn
        if not self.sources:
            self.middleware.check_gates(self.label, HANDOFF_PREFIX)
        self._input_guardrails = read_output_guardrails(self.label, input_guardrails)
        self.output_guardrails: tuple[OutputGuardrail, ...] = read_output_guardrails(self.label, output_guardrails)
        self.token_limit = token_limit
        self.max_parallel_tools = max_parallel_tools
        self.history_processors = read_processors("ReActAgent", history_processors, compaction)
        """What a model is shown is made by these, in order; the compaction is one of them."""
        self.output_retries = output_retries
        if response_format is None and output_retries is None:
            self.output_retries = 2
        wanted = output_type if response_format is None else response_format
        self._structured = None
        if wanted is not str:
            # Late: most agents answer in text.
            from hitl.agents.structured import StructuredOutput

            self._structured = StructuredOutput(wanted, "output_type" if response_format is None else "response_format")

    def __repr__(self) -> str:
        return f"<ReActAgent {self.label}>"

    @property
    def label(self) -> str:
        """What errors call it."""
        return self.name or "agent"

    @property
    def response_format(self) -> ResponseFormat | None:
        """What a final message must be, as a model request says it."""
        return None if self._structured is None else self._structured.format

    def prepare(self) -> None:
        """Import what turns will need, once, before workers are forked. Connects to nothing.

        Raises what makes every turn fail: a missing extra, an annotation of a tool that names nothing.
        """
        for agent in self.reachable():
            check_names([*agent.tools, *handoff_tools(agent.handoffs)])
            for own in agent.tools:
                _ = own.parameters
            for source in agent.sources:
                source.prepare()
            prepare = getattr(agent.chat_client(), "prepare", None)
            if prepare is not None:
                prepare()

    async def run_turn(self, message: ChatMessage, state: list[ChatMessage]) -> tuple[ChatMessage, list[ChatMessage]]:
        """Answer one message: the final assistant message, and the state with this turn appended. What turns before it
        did that came to no answer is told first, and becomes part of the state.

        Whoever had the conversation at the end of `state` goes on with it, where handoffs lead there from this agent.

        Raises `MaxStepsExceeded`, `TimeoutError`, and what the chat client and guardrails raise; what goes wrong in a
        tool is told to the model instead.
        """
        turn = current_turn("run_turn()")
        token = agent_name.set(self.name or agent_name.get())
        try:
            with told_apart(self):
                async with limit(self.timeout, self.label, goes_on=self._goes_on()):
                    *before, message = self.messages_of(message)
                    history = [*state, *await tell_abandoned(turn, self, state), *before]
                    first = agent_in_charge(self, history)
                    history.append(await self.guard_input(turn, message))
                    limits = ConversationLimits(self.max_steps, self.token_limit or math.inf)
                    return await Conversation(turn, history, limits).answer(first), history
        finally:
            agent_name.reset(token)

    def _goes_on(self) -> bool:
        """Whether a tool may run in a thread, which no time limit stops."""
        return any(own.goes_on for agent in self.reachable() for own in agent.tools)

    def messages_of(self, message: ChatMessage) -> list[ChatMessage]:
        """What a turn's message stands for in a conversation; the last one is the message itself."""
        return [message]

    async def guard_input(self, turn: Turn, message: ChatMessage) -> ChatMessage:
        """A turn's message as the input guardrails leave it; what one raises fails the turn."""
        with permit():
            return await guard_message(turn, self.label, self._input_guardrails, message)

    def parse(self, message: ChatMessage) -> Any:
        """The value of type `output_type` that a final message holds; `ValueError` when it holds none, `TypeError` for
        an agent without an `output_type`."""
        if self._structured is None:
            raise TypeError(f"{self!r} has no output_type")
        return self._structured.parse(message.content)

    def output_of(self, answer: ChatMessage, messages: list[ChatMessage], /) -> OutputT:
        """What the answer is that ended a conversation with this agent: a value of the `output_type` of whoever had
        the conversation then, or the text of one without. `InvalidOutput` for an answer that somebody changed."""
        agent = agent_in_charge(self, messages)
        assert isinstance(agent, ReActAgent)
        if agent._structured is None:
            return cast(OutputT, answer.content or "")
        try:
            return cast(OutputT, agent.parse(answer))
        except ValueError as error:
            raise InvalidOutput(f"the answer of {agent.label} is not of its output_type: {error}") from None

    def as_tool(
        self,
        name: str | None = None,
        description: str | None = None,
        requires_approval: bool | ApprovalPolicy = False,
    ) -> Tool[..., Any]:
        """This agent as a tool of another: one argument, `input`; its final text is the result.

        It starts with an empty conversation each time. Interrupts inside it come out on the outer turn, with this
        agent's name, or `outer/tool` where it has none; an approval of the tool itself approves nothing inside.
        """
        if name is None and self.name is not None:
            name = self.name if is_tool_name(self.name) else snake_case(self.name)
        if not name:
            raise ValueError("as_tool() needs a name: give the agent one, or pass as_tool(name=...)")
        about = f"Give a task to the agent {self.name or name}; it answers in text."

        async def run(input: str) -> str:
            # Without a name of its own it gets the tool's: a grant for a tool of the outer agent is not for its own.
            outer = agent_name.get() or current_turn("run_turn()").agent
            own = self.name or (name if outer is None else f"{outer}/{name}")
            token = agent_name.set(own)
            try:
                response, _ = await self.run_turn(ChatMessage.user_message(content=input), [])
            finally:
                agent_name.reset(token)
            return response.content or ""

        setattr(run, INNER_AGENT, self)
        setattr(run, GOES_ON, self._goes_on())
        # Never `once`: its steps are, each for itself, and a crash must let the finished ones stand.
        return tool(
            run,
            name=name,
            description=description or self.description or about,
            requires_approval=requires_approval,
            once=False,
        )

    def complaint(self, reply: ChatMessage) -> str | None:
        """What is wrong with the structure of a final message, for the model to mend."""
        if self._structured is None:
            return None
        try:
            self._structured.parse(reply.content)
        except ValueError as error:
            return f"Your reply does not have the required structure: {error}."
        return None

    # -- what it is made of ---------------------------------------------------------------------------------------

    def reachable(self) -> list[ReActAgent[Any]]:
        """This agent and all it may hand over to, in steps; each once."""
        found: list[ReActAgent[Any]] = [self]
        for agent in found:
            found += [target for target in read_handoffs(agent.handoffs) if target not in found]
        return found

    def chat_client(self) -> ChatClient:
        """Where replies come from."""
        if self._client is None:
            # Late: who brings a client of his own pays for no other.
            from hitl.models.chat_completions import OpenAIChatClient

            self._client = OpenAIChatClient()
        return self._client

    def model(self) -> str:
        """The model's name; `ModelNotConfigured` when nobody says it."""
        model = self.model_name or os.environ.get("HITL_MODEL") or getattr(self._client, "default_model", None)
        if model:
            return model
        # Late, as the client is.
        from hitl.models.provider import ModelNotConfigured

        raise ModelNotConfigured(
            f"{self.label} has no model\n\nhint: set HITL_MODEL, or pass ReActAgent(model_name=...)"
        )


def _check_number(option: str, number: object, least: int) -> None:
    if type(number) is not int or number < least:
        raise ValueError(f"ReActAgent: {option} must be a whole number of {least} or more, got {number!r}")


def _check_seconds(timeout: object) -> None:
    if isinstance(timeout, bool) or not isinstance(timeout, int | float):
        raise TypeError(f"ReActAgent: timeout is a number of seconds or None, got {timeout!r}")
    if not (timeout > 0 and math.isfinite(timeout)):
        raise ValueError(f"ReActAgent: timeout must be more than 0 seconds, got {timeout!r}")


def _sort_tools(given: Iterable[ToolLike]) -> tuple[list[Tool[..., Any]], tuple[MCPTools, ...]]:
    """The tools among what was given, plain functions made tools, and the MCP servers."""
    tools: list[Tool[..., Any]] = []
    sources: list[MCPTools] = []
    check_listed("ReActAgent", "tools", given)
    for item in given:
        if callable(getattr(item, "list_tools", None)) and hasattr(item, "connected"):
            sources.append(cast("MCPTools", item))
        elif isinstance(item, ReActAgent):
            raise TypeError("ReActAgent: an agent becomes a tool by agent.as_tool()")
        elif isinstance(item, Tool):
            tools.append(item)
        elif callable(item) and not isinstance(item, type):
            tools.append(tool(item))
        else:
            raise TypeError(f"ReActAgent: tools takes @tool functions and MCPTools, got {item!r}")
    for made in tools:
        if takes_object(made.function):
            name = getattr(made.function, "__qualname__", made.name)
            raise TypeError(
                f"ReActAgent: {name} is a method without its object\n\n"
                f"hint: make the object first: tools=[obj.{made.name}]"
            )
    return tools, tuple(sources)
