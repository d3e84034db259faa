"""One message and what comes of it: the loop between models and tools, over all agents that get the conversation."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any, cast

from hitl.agents.handoffs import handoff_tools
from hitl.agents.history import processed
from hitl.agents.limits import PAUSED, InvalidOutput, MaxStepsExceeded, TokenLimitExceeded, cut_short, tokens_of
from hitl.agents.namesakes import place_of
from hitl.agents.participant import Participant
from hitl.agents.seams import AgentRun, AgentRuntime, Middleware, ToolCallRequest, current_run_var
from hitl.agents.tool_calls import Answered, ToolBox, changed_call, own_ids
from hitl.messages import ChatMessage, ToolCall
from hitl.model_settings import InvalidSettings, ModelSettings
from hitl.models.chat_client import ModelReply, ModelRequest
from hitl.models.recording import record_model_call
from hitl.tools.approvals import make_context
from hitl.tools.guarding import guard_output
from hitl.tools.invoking import invoke
from hitl.turn.limits import passes
from hitl.turn.permits import Permit, permit, permitted
from hitl.turn.resources import resources_at_work
from hitl.turn.runtime import Turn, agent_name, agent_place


@dataclass
class _ActiveAgent:
    """An agent that has, or had, the conversation: made when it first gets it."""

    agent: Participant
    run: AgentRun
    box: ToolBox
    middleware: Middleware
    prompt: str | None = None
    has_called: bool = False
    """Whether it has called a tool in this turn."""
    complaints: int = 0
    """How often its model was told what is wrong with its answer, since the turn was last retried for it."""

    def settings(self, of_run: ModelSettings) -> ModelSettings:
        """How its model is asked now, where `of_run` goes before what the agent says. A tool that must be called is one
        of its own, and has been once it was called: a model that must always call one never answers."""
        settings: ModelSettings = {**self.agent.settings, **of_run} if of_run else self.agent.settings
        choice = settings.get("tool_choice", "auto")
        if choice in ("auto", "none"):
            return settings
        if choice != "required" and choice not in self.box:
            known = ", ".join(self.box.names) or "none"
            raise InvalidSettings(
                f"tool_choice of {self.agent.label} names the tool {choice!r}, which it has not; its tools: {known}"
            )
        return {**settings, "tool_choice": "auto"} if self.has_called else settings

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """What is asked in this block is asked by this agent."""
        name = agent_name.set(self.agent.name or agent_name.get())
        place = agent_place.set(place_of(self.agent))
        run = current_run_var.set(self.run)
        resources = resources_at_work.set(self.agent.resources or resources_at_work.get())
        try:
            yield
        finally:
            resources_at_work.reset(resources)
            current_run_var.reset(run)
            agent_place.reset(place)
            agent_name.reset(name)


@dataclass(frozen=True)
class ConversationLimits:
    """What models may be asked in a conversation, over all agents."""

    requests: int
    tokens: float
    """Infinite where nobody limits them."""


_AGAIN = "Reply again with only the JSON object."


class Conversation:
    """The conversation of one turn, or of one call of an agent as a tool."""

    def __init__(self, turn: Turn, history: list[ChatMessage], limits: ConversationLimits) -> None:
        """`history`: what was said, which grows."""
        self._turn = turn
        self._history = history
        self._limits = limits
        self._granted_requests = limits.requests
        """How often models may be asked, with what retries of the turn have granted."""
        self._granted_tokens = limits.tokens
        self._requests = 0
        self._tokens: float = 0
        self._active: dict[int, _ActiveAgent] = {}

    async def answer(self, agent: Participant) -> ChatMessage:
        """From `agent` on, until one answers: the final message. Raises `MaxStepsExceeded`."""
        async with AsyncExitStack() as connections:
            now: Participant | ChatMessage = agent
            while not isinstance(now, ChatMessage):
                active = self._active.get(id(now))
                is_new = active is None
                if active is None:
                    active = self._active[id(now)] = await self._activate(now, connections)
                with active.at_work():
                    if is_new:
                        active.prompt = await self._prompt(active.agent)
                        with permit():
                            await active.middleware.before_agent(active.run)
                    now = await self._work(active)
            for active in reversed(self._active.values()):
                with active.at_work():
                    await active.middleware.after_agent(active.run)
            return now

    async def _work(self, active: _ActiveAgent) -> ChatMessage | Participant:
        """Until this agent answers, or hands the conversation over: the answer, or who has it then."""
        while True:
            await self._check_limits(active)
            self._requests += 1
            with permit() as gate:
                await active.middleware.before_model(active.run)
                said, doomed = await self._ask_model(active)
                if (cut := cut_short(active.agent.label, said)) is not None:
                    await passes(self._turn, said.finish_reason or "", cut)
                    continue  # retried: the model is asked again, as if it had said nothing
                reply = said.message
                self._history.append(reply)
                await active.middleware.after_model(active.run)
            if reply.tool_calls:
                active.has_called = True
                answered = await self._call_tools(active, reply, doomed, gate)
                self._history += [each.message for each in answered]
                for each in answered:
                    if each.handoff is not None:
                        return each.handoff
            elif said.finish_reason == PAUSED:
                continue  # it goes on where it is shown what it has said
            elif (complaint := active.agent.complaint(reply)) is not None:
                await self._check_complaints(active, complaint)
                self._history.append(ChatMessage.user_message(content=f"{complaint} {_AGAIN}"))
            else:
                agent = active.agent
                guarded = await guard_message(self._turn, agent.label, agent.output_guardrails, reply)
                if guarded is not reply and (complaint := agent.complaint(guarded)) is not None:
                    raise InvalidOutput(f"an output guardrail of {agent.label} changed its answer. {complaint}")
                self._history[-1] = guarded
                return guarded

    async def _check_limits(self, active: _ActiveAgent) -> None:
        """Raise where a model may not be asked once more."""
        label = active.agent.label
        if self._requests >= self._granted_requests:
            text = f"{label} asked its model {self._granted_requests} times without coming to an answer"
            await passes(self._turn, "max_steps", MaxStepsExceeded(text))
            self._granted_requests += self._limits.requests
        if self._tokens >= self._granted_tokens:
            text = f"{label} took {self._tokens:g} tokens without coming to an answer"
            await passes(self._turn, "token_limit", TokenLimitExceeded(f"{text}; its limit is {self._limits.tokens:g}"))
            self._granted_tokens = self._tokens + self._limits.tokens

    async def _check_complaints(self, active: _ActiveAgent, complaint: str) -> None:
        """Raise where the model has been told often enough what is wrong."""
        most = active.agent.output_retries
        if most is not None and active.complaints >= most:
            times = "once" if most == 1 else f"{most} times"
            text = f"{active.agent.label} was told {times} what is wrong with its answer. {complaint}"
            await passes(self._turn, "output_retries", InvalidOutput(text))
            active.complaints = 0
        active.complaints += 1

    async def _activate(self, agent: Participant, connections: AsyncExitStack) -> _ActiveAgent:
        """Everything the agent works with; connections to MCP servers end with the conversation."""
        turn = self._turn
        middleware: Middleware = agent.middleware
        tools = [*agent.tools]
        tools += middleware.wrap_tools(handoff_tools(agent.handoffs))
        for source in agent.sources:
            await connections.enter_async_context(source.connected(turn))
            tools += middleware.wrap_tools(await source.list_tools(turn))
        middleware.warn_of_unknown_gates(agent.label)
        runtime = AgentRuntime(agent, turn.context, turn.session_id, turn.turn_id)
        run = AgentRun(runtime, {"messages": self._history})
        return _ActiveAgent(agent, run, ToolBox(turn, tools, agent.hooks, agent.max_parallel_tools), middleware)

    async def _prompt(self, agent: Participant) -> str | None:
        """The agent's instructions for this turn."""
        given, turn = agent.system_prompt, self._turn
        if not callable(given):
            return given

        async def ask() -> str:
            text = await invoke(turn, given, make_context(turn, None))
            if not isinstance(text, str):
                raise TypeError(f"system_prompt of {agent.label} must return a str, got {type(text).__name__}")
            return text

        # A step, whatever it does: the time of day is in a prompt sooner than anything else.
        return await turn.run_step("step", "system_prompt", ask)

    async def _ask_model(self, active: _ActiveAgent) -> tuple[ModelReply, dict[str, str]]:
        """What the model says, and `doomed`: see `own_ids`."""
        turn, agent = self._turn, active.agent
        client, doomed = agent.chat_client(), dict[str, str]()

        async def ask(request: ModelRequest) -> ModelReply:
            reply = await record_model_call(
                turn, client, client.complete, request, retries=agent.retries, transient=agent.transient
            )
            self._tokens += tokens_of(reply, request.messages)
            message, shared = own_ids(reply.message)
            doomed.update(shared)
            return replace(reply, message=message) if shared else reply

        shown = await self._shown(agent)
        system = [] if active.prompt is None else [ChatMessage.system_message(content=active.prompt)]
        # Only the outermost agent speaks to the reader; what a nested one says is a tool's business.
        outermost = turn.current_step is None
        request = ModelRequest(
            model=agent.model(),
            messages=system + shown,
            tools=active.box.definitions,
            response_format=agent.response_format,
            on_delta=(lambda delta: turn.delta(cast(dict[str, str], delta))) if outermost else None,
            settings=active.settings(cast(ModelSettings, turn.settings) if outermost else {}),
        )
        reply = await active.middleware.around(ask)(request)
        message, shared = own_ids(reply.message)
        return replace(reply, message=message), doomed | shared

    async def _shown(self, agent: Participant) -> list[ChatMessage]:
        """What the agent's model is shown of what was said."""
        messages, tokens = await processed(self._turn, agent, self._history)
        self._tokens += tokens
        return messages

    async def _call_tools(
        self, active: _ActiveAgent, reply: ChatMessage, doomed: Mapping[str, str], gate: Permit
    ) -> list[Answered]:
        """Run all calls of a reply at once; results in the order of the calls. `gate`: what stood before them all."""
        calls = reply.tool_calls or []
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._call_tool(active, call, calls, doomed, gate)) for call in calls]
        except BaseExceptionGroup as several:
            # What gets here is no tool error but the end of the turn, and the first one says why.
            raise several.exceptions[0] from None
        return [task.result() for task in tasks]

    async def _call_tool(
        self, active: _ActiveAgent, call: ToolCall, calls: Sequence[ToolCall], doomed: Mapping[str, str], gate: Permit
    ) -> Answered:
        """One call, with the middleware that stands around it. A call that cannot be read is answered at once."""
        middleware = active.middleware
        asked = active.box.request_of(call, doomed, active.run) if middleware.wraps_tool_calls else None
        if asked is None:
            return await active.box.answer(call, calls, doomed, gate.asked)
        answered: list[Answered] = []

        async def answer(request: ToolCallRequest) -> ChatMessage:
            was_let = gate.asked or around.asked
            with permitted():
                answered.append(await active.box.answer(changed_call(call, asked, request), calls, doomed, was_let))
            return answered[-1].message

        with permit() as around:
            message = await middleware.around_tool_call(answer)(asked)
        if message.role != "tool" or message.tool_call_id != call["id"]:
            raise TypeError(f"wrap_tool_call must return a tool message with the id of the call, {call['id']!r}")
        handoff = next((each.handoff for each in answered if each.message is message), None)
        return Answered(message, handoff)


async def guard_message(turn: Turn, label: str, guardrails: tuple[Any, ...], message: ChatMessage) -> ChatMessage:
    """A message as the guardrails of the agent `label` leave it; what one raises fails the turn."""
    for guardrail in guardrails:
        replaced = await guard_output(turn, label, (guardrail,), message)
        if isinstance(replaced, str):
            message = ChatMessage.from_dict({**message.to_dict(), "content": replaced})
        elif isinstance(replaced, ChatMessage):
            message = replaced
        else:
            raise TypeError(
                f"guardrail {guardrail.name!r} of {label!r} must return None, a str or a ChatMessage, "
                f"got {type(replaced).__name__}"
            )
    return message
