"""`ReActAgent`: a model, tools, and the loop between them."""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, cast

from hitl.agents.tool_calls import ToolBox, own_ids
from hitl.agents.usage import add_usage
from hitl.approvals import guard_output
from hitl.errors import HitlError
from hitl.guardrails import Guardrail, read_output_guardrails
from hitl.messages import ChatMessage
from hitl.models.chat_client import ChatClient, ModelRequest
from hitl.models.recording import record_model_call
from hitl.runtime import Turn, agent_name, current_turn
from hitl.stopwatch import limit
from hitl.tools import Tool, tool

if TYPE_CHECKING:
    from hitl.mcp_tools import MCPTools

    ToolLike = Tool[..., Any] | Callable[..., Any] | MCPTools


class MaxStepsExceeded(HitlError):
    """The model was asked `max_steps` times and still wanted to call tools."""

    code = "max_steps_exceeded"


class ReActAgent:
    """An agent that lets a model call tools until it answers.

    One agent may run many turns at once; it keeps nothing between them. The session's state holds the conversation
    (user, assistant and tool messages), not the system prompt, so that a changed prompt holds for old sessions too.
    """

    def __init__(
        self,
        client: ChatClient | None = None,
        model_name: str | None = None,
        name: str | None = None,
        system_prompt: str | None = None,
        tools: Iterable[ToolLike] = (),
        handoffs: Sequence[Any] = (),
        middleware: Sequence[Any] = (),
        hooks: Sequence[Any] = (),
        response_format: Any = None,
        max_steps: int = 20,
        timeout: float | None = None,
        input_guardrails: Iterable[Guardrail] | None = None,
        output_guardrails: Iterable[Guardrail] | None = None,
    ):
        """
        Args:
            client: Where replies come from; by default `OpenAIChatClient()`, made when it is first needed.
            model_name: The model, as the client's provider calls it; by default the environment's `HITL_MODEL`,
                else the client's own `default_model` where it has one.
            name: What interrupts call this agent.
            system_prompt: Instructions, sent first with every request.
            tools: `@tool`s, plain functions (made tools) and `MCPTools`; two of one name are a `ValueError`.
            handoffs: Refused in this release, as are `middleware` and `hooks`.
            response_format: A pydantic model, dataclass or TypedDict that the final message must be, as JSON; a
                message that is not is shown to the model with what is wrong. `parse` reads it.
            max_steps: How often the model may be asked in a turn; beyond it `MaxStepsExceeded`.
            timeout: Seconds a turn may work; the time people take to answer does not count.
            input_guardrails: Called with the message of the turn. None keeps it; a `ChatMessage` or str replaces it
                or its text; raising fails the turn.
            output_guardrails: The same for the final message.
        """
        for option, given in (("handoffs", handoffs), ("middleware", middleware), ("hooks", hooks)):
            if given:
                raise TypeError(f"ReActAgent: {option} is not supported yet: it comes in a later release")
        if client is not None and not callable(getattr(client, "complete", None)):
            raise TypeError(f"ReActAgent: client must have `async complete(request)`, got {type(client).__name__}")
        for option, text in (("model_name", model_name), ("name", name), ("system_prompt", system_prompt)):
            if text is not None and not isinstance(text, str):
                raise TypeError(f"ReActAgent: {option} must be a str or None, got {type(text).__name__}")
        if type(max_steps) is not int or max_steps < 1:
            raise ValueError(f"ReActAgent: max_steps must be a whole number of 1 or more, got {max_steps!r}")
        if timeout is not None and not (timeout > 0 and math.isfinite(timeout)):
            raise ValueError(f"ReActAgent: timeout must be more than 0 seconds, got {timeout!r}")
        self.name = name
        self.model_name = model_name
        self.system_prompt = system_prompt
        self.max_steps = max_steps
        self.timeout = timeout
        self._client = client
        self._tools: tuple[Tool[..., Any], ...] = ()
        self._sources: tuple[MCPTools, ...] = ()
        self._read_tools(tools)
        self._input_guardrails = read_output_guardrails(self._label, input_guardrails)
        self._output_guardrails = read_output_guardrails(self._label, output_guardrails)
        self._structured = None
        if response_format is not None:
            from hitl.agents.structured import StructuredOutput

            self._structured = StructuredOutput(response_format)

    def __repr__(self) -> str:
        return f"<ReActAgent {self._label}>"

    @property
    def tools(self) -> tuple[Tool[..., Any], ...]:
        """The agent's tools, those of MCP servers excepted."""
        return self._tools

    @property
    def _label(self) -> str:
        return self.name or "agent"

    def prepare(self) -> None:
        """Import what turns will need, once, before workers are forked. Connects to nothing.

        Raises what makes every turn fail: a missing extra, an annotation of a tool that names nothing.
        """
        for own in self._tools:
            _ = own.parameters
        for source in self._sources:
            source.prepare()
        prepare = getattr(self._chat_client(), "prepare", None)
        if prepare is not None:
            prepare()

    async def run_turn(self, message: ChatMessage, state: list[ChatMessage]) -> tuple[ChatMessage, list[ChatMessage]]:
        """Answer one message: the final assistant message, and the state with this turn appended.

        Raises `MaxStepsExceeded`, `TimeoutError`, and what the chat client and guardrails raise; what goes wrong in a
        tool is told to the model instead.
        """
        turn = current_turn("run_turn()")
        token = agent_name.set(self.name or agent_name.get())
        try:
            async with limit(self.timeout, self._label):
                return await self._run(turn, message, list(state))
        finally:
            agent_name.reset(token)

    def parse(self, message: ChatMessage) -> Any:
        """The object of type `response_format` that a final message holds; `ValueError` when it holds none."""
        if self._structured is None:
            raise TypeError(f"{self!r} has no response_format")
        return self._structured.parse(message.content)

    def as_tool(
        self, name: str | None = None, description: str | None = None, requires_approval: bool = False
    ) -> Tool[..., Any]:
        """This agent as a tool of another: one argument, `input`; its final text is the result.

        It starts with an empty conversation each time. Interrupts inside it come out on the outer turn, with this
        agent's name.
        """
        name = name or self.name
        if name is None:
            raise ValueError("as_tool() needs a name: give the agent one, or pass as_tool(name=...)")

        async def run(input: str) -> str:
            response, _ = await self.run_turn(ChatMessage.user_message(content=input), [])
            return response.content or ""

        # Never `once`: its steps are, each for itself, and a crash must let the finished ones stand.
        return tool(
            run,
            name=name,
            description=description or f"Give a task to the agent {name}; it answers in text.",
            requires_approval=requires_approval,
            once=False,
        )

    # -- one turn -------------------------------------------------------------------------------------------------

    async def _run(
        self, turn: Turn, message: ChatMessage, history: list[ChatMessage]
    ) -> tuple[ChatMessage, list[ChatMessage]]:
        history.append(await self._guard(turn, self._input_guardrails, message))
        async with self._tool_box(turn) as box:
            for _ in range(self.max_steps):
                reply, doomed = own_ids(await self._ask_model(turn, history, box))
                history.append(reply)
                if reply.tool_calls:
                    history += await self._run_tools(box, reply, doomed)
                elif (complaint := self._complaint(reply)) is not None:
                    history.append(ChatMessage.user_message(content=complaint))
                else:
                    history[-1] = await self._guard(turn, self._output_guardrails, reply)
                    return history[-1], history
        raise MaxStepsExceeded(f"{self._label} asked its model {self.max_steps} times without coming to an answer")

    @asynccontextmanager
    async def _tool_box(self, turn: Turn) -> AsyncIterator[ToolBox]:
        """The agent's tools, those of MCP servers included; their connections end with the block."""
        async with AsyncExitStack() as stack:
            tools = list(self._tools)
            for source in self._sources:
                await stack.enter_async_context(source.connected(turn))
                tools += await source.list_tools(turn)
            yield ToolBox(tools)

    async def _ask_model(self, turn: Turn, history: list[ChatMessage], box: ToolBox) -> ChatMessage:
        client, model = self._chat_client(), self._model()
        system = [] if self.system_prompt is None else [ChatMessage.system_message(content=self.system_prompt)]
        # Only the outermost agent speaks to the reader; what a nested one says is a tool's business.
        outermost = turn.current_step is None
        request = ModelRequest(
            model=model,
            messages=system + history,
            tools=box.definitions,
            response_format=None if self._structured is None else self._structured.format,
            on_delta=(lambda delta: turn.delta(cast(dict[str, str], delta))) if outermost else None,
        )

        reply = await record_model_call(turn, client, client.complete, request)
        add_usage(turn, reply.usage)
        return reply.message

    async def _run_tools(self, box: ToolBox, reply: ChatMessage, doomed: Mapping[str, str]) -> list[ChatMessage]:
        """Run all calls of a reply at once; results in the order of the calls."""
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(box.answer(call, doomed)) for call in reply.tool_calls or ()]
        except BaseExceptionGroup as several:
            # What gets here is no tool error but the end of the turn, and the first one says why.
            raise several.exceptions[0] from None
        return [task.result() for task in tasks]

    async def _guard(self, turn: Turn, guardrails: tuple[Any, ...], message: ChatMessage) -> ChatMessage:
        for guardrail in guardrails:
            replaced = await guard_output(turn, self._label, (guardrail,), message)
            if isinstance(replaced, str):
                message = ChatMessage.from_dict({**message.to_dict(), "content": replaced})
            elif isinstance(replaced, ChatMessage):
                message = replaced
            else:
                raise TypeError(
                    f"guardrail {guardrail.name!r} of {self._label!r} must return None, a str or a ChatMessage, "
                    f"got {type(replaced).__name__}"
                )
        return message

    def _complaint(self, reply: ChatMessage) -> str | None:
        """What is wrong with the structure of a final message, for the model to mend."""
        if self._structured is None:
            return None
        try:
            self._structured.parse(reply.content)
        except ValueError as error:
            return f"Your reply does not have the required structure: {error}. Reply again with only the JSON object."
        return None

    # -- what it is made of ---------------------------------------------------------------------------------------

    def _read_tools(self, given: Iterable[ToolLike]) -> None:
        tools, sources = [], []
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
        ToolBox(tools)  # two of one name are an error here, not in the first turn
        self._tools, self._sources = tuple(tools), tuple(sources)

    def _chat_client(self) -> ChatClient:
        if self._client is None:
            from hitl.models.chat_completions import OpenAIChatClient

            self._client = OpenAIChatClient()
        return self._client

    def _model(self) -> str:
        model = self.model_name or os.environ.get("HITL_MODEL") or getattr(self._client, "default_model", None)
        if model:
            return model
        from hitl.models.chat_completions import ModelNotConfigured

        raise ModelNotConfigured(
            f"{self._label} has no model\n\nhint: set HITL_MODEL, or pass ReActAgent(model_name=...)"
        )
