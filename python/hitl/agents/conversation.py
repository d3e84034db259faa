"""One message and what comes of it: the loop between models and tools, over all agents that get the conversation."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any, cast

from hitl.agents.handoffs import handoff_tools
from hitl.agents.namesakes import place_of
from hitl.agents.participant import Participant
from hitl.agents.seams import AgentRun, AgentRuntime, Middleware, ToolCallRequest, current_run_var
from hitl.agents.tool_calls import Answered, ToolBox, changed_call, own_ids
from hitl.errors import HitlError
from hitl.messages import ChatMessage, ToolCall
from hitl.models.chat_client import ModelReply, ModelRequest
from hitl.models.recording import record_model_call
from hitl.models.settings import InvalidSettings, ModelSettings
from hitl.tools.approvals import guard_output
from hitl.turn.permits import Permit, permit, permitted
from hitl.turn.runtime import Turn, agent_name, agent_place


class MaxStepsExceeded(HitlError):
    """The model was asked `max_steps` times and still wanted to call tools. Where nobody catches it the turn is
    suspended, and a retry lets the model be asked that often once more."""

    code = "max_steps_exceeded"


@dataclass
class _ActiveAgent:
    """An agent that has, or had, the conversation: made when it first gets it."""

    agent: Participant
    run: AgentRun
    box: ToolBox
    middleware: Middleware
    has_called: bool = False
    """Whether it has called a tool in this turn."""

    def settings(self) -> ModelSettings:
        """How its model is asked now. A tool that must be called is one of its own, and has been once it was called:
        a model that must always call one never answers."""
        settings = self.agent.settings
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
        try:
            yield
        finally:
            current_run_var.reset(run)
            agent_place.reset(place)
            agent_name.reset(name)


class Conversation:
    """The conversation of one turn, or of one call of an agent as a tool."""

    def __init__(self, turn: Turn, history: list[ChatMessage], most_requests: int) -> None:
        """`history`: what was said, which grows; `most_requests`: how often models may be asked, over all agents."""
        self._turn = turn
        self._history = history
        self._most_requests = most_requests
        self._granted = most_requests
        """The same, with what retries of the turn have granted."""
        self._requests = 0
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
            if self._requests >= self._granted:
                label, most = active.agent.label, self._granted
                text = f"{label} asked its model {most} times without coming to an answer"
                await self._turn.passes("max_steps", MaxStepsExceeded(text))
                self._granted += self._most_requests
            self._requests += 1
            with permit() as gate:
                await active.middleware.before_model(active.run)
                reply, doomed = await self._ask_model(active)
                self._history.append(reply)
                await active.middleware.after_model(active.run)
            if reply.tool_calls:
                active.has_called = True
                answered = await self._call_tools(active, reply, doomed, gate)
                self._history += [each.message for each in answered]
                for each in answered:
                    if each.handoff is not None:
                        return each.handoff
            elif (complaint := active.agent.complaint(reply)) is not None:
                self._history.append(ChatMessage.user_message(content=complaint))
            else:
                agent = active.agent
                self._history[-1] = await guard_message(self._turn, agent.label, agent.output_guardrails, reply)
                return self._history[-1]

    async def _activate(self, agent: Participant, connections: AsyncExitStack) -> _ActiveAgent:
        """Everything the agent works with; connections to MCP servers end with the conversation."""
        turn = self._turn
        middleware: Middleware = agent.middleware
        tools = [*agent.tools]
        tools += middleware.wrap_tools(handoff_tools(agent.handoffs))
        for source in agent.sources:
            await connections.enter_async_context(source.connected(turn))
            tools += middleware.wrap_tools(await source.list_tools(turn))
        runtime = AgentRuntime(agent, turn.context, turn.session_id, turn.turn_id)
        return _ActiveAgent(
            agent, AgentRun(runtime, {"messages": self._history}), ToolBox(turn, tools, agent.hooks), middleware
        )

    async def _ask_model(self, active: _ActiveAgent) -> tuple[ChatMessage, dict[str, str]]:
        """What the model says, and `doomed`: see `own_ids`."""
        turn, agent = self._turn, active.agent
        client, doomed = agent.chat_client(), dict[str, str]()

        async def ask(request: ModelRequest) -> ModelReply:
            reply = await record_model_call(
                turn, client, client.complete, request, retries=agent.retries, transient=agent.transient
            )
            message, shared = own_ids(reply.message)
            doomed.update(shared)
            return replace(reply, message=message) if shared else reply

        system = [] if agent.system_prompt is None else [ChatMessage.system_message(content=agent.system_prompt)]
        # Only the outermost agent speaks to the reader; what a nested one says is a tool's business.
        outermost = turn.current_step is None
        request = ModelRequest(
            model=agent.model(),
            messages=system + self._history,
            tools=active.box.definitions,
            response_format=agent.response_format,
            on_delta=(lambda delta: turn.delta(cast(dict[str, str], delta))) if outermost else None,
            settings=active.settings(),
        )
        reply = await active.middleware.around(ask)(request)
        message, shared = own_ids(reply.message)
        return message, doomed | shared

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
