"""An agent of Strands as one of ours: a message in, a run of it, a reply out."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from strands import Agent
from strands.multiagent.base import MultiAgentBase

from hitl.agents.abandoned import as_text, tell_elsewhere
from hitl.errors import AgentLoadError
from hitl.ext.gating import GateOptions, read_approvals
from hitl.ext.strands.asking import put_question
from hitl.ext.strands.copies import copy_for, name_of
from hitl.ext.strands.messages import history_of, prompt_of, takes_office, told_of, turn_of, without_states
from hitl.ext.strands.refusals import refuse
from hitl.ext.strands.several import copy_of_several, text_of
from hitl.ext.strands.state import TurnState
from hitl.ext.strands.steps import read_result
from hitl.ext.strands.turns import InTurn, may_pass
from hitl.messages import ChatMessage
from hitl.strict_json import sendable
from hitl.turn.permits import permit
from hitl.turn.retrying import Retries, Transient, check_retries
from hitl.turn.runtime import current_turn

InvocationState = Callable[[Any], Mapping[str, Any] | Awaitable[Mapping[str, Any]]]
"""Makes ``invocation_state`` of what a turn began with: the ``context`` of ``hitl.run``, or else the message's
``user_params``."""


def is_agent(candidate: Any) -> bool:
    """Whether it is an agent of Strands, a graph or a swarm of them."""
    return isinstance(candidate, Agent | MultiAgentBase)


def as_agent(
    agent: Agent | MultiAgentBase,
    *,
    name: str | None = None,
    invocation_state: InvocationState | None = None,
    approvals: Mapping[str, GateOptions] | None = None,
    stream: bool = True,
    retries: int = 2,
    transient: Transient = "suspend",
) -> Strands:
    """An agent of Strands, or a graph or swarm, to be served or run, with options.

    - ``name``: what clients, rules and the journal call it; the agent's own name otherwise.
    - ``invocation_state``: called at the begin of each run of a turn, also when it goes on after a restart, with the
      JSON that the turn began with: the ``context`` of ``hitl.run``, or else the ``user_params`` of the message.
      Returns what hooks and tools get as ``invocation_state``, or an awaitable of it; without it they get that JSON:
      a context that is no dict is an AgentLoadError then.
    - ``approvals``: how to ask about calls, by tool: ``description``, ``allowed_decisions``, ``approvers``,
      ``expires_in``, ``source`` and ``metadata``. It holds for agents too that its tools and hooks call.
    - ``stream``: whether a model's words are shown one by one to whoever watches.
    - ``retries``: how often a model is asked again after errors that may pass; ``transient``: whether the last of them
      suspends the turn, to be retried, or is raised.
    """
    if not is_agent(agent):
        raise TypeError(f"as_agent() takes an agent of Strands, got {type(agent).__name__}")
    check_retries("as_agent()", retries, transient)
    return Strands(
        agent, name, invocation_state, read_approvals(approvals), stream, Retries(retries, transient, may_pass)
    )


class Strands:
    """An agent of Strands, or several that are one, that runs turns. Made by ``as_agent``."""

    distribution: Final = "strands-agents"
    """The package whose version matters for what waits."""

    def __init__(
        self,
        agent: Agent | MultiAgentBase,
        name: str | None,
        invocation_state: InvocationState | None,
        approvals: Mapping[str, GateOptions] | None,
        stream: bool,
        retries: Retries,
    ) -> None:
        self.agent = agent
        self.name = name or (name_of(agent) if isinstance(agent, Agent) else agent.id)
        self._invocation_state = invocation_state
        self._approvals = approvals or {}
        self._stream = stream
        self._retries = retries

    def prepare(self) -> None:
        """Find out before the first turn what would keep each of them from running: AgentLoadError."""
        refuse(self.agent, self.name)

    async def run_turn(self, message: ChatMessage, state: list[ChatMessage]) -> tuple[ChatMessage, list[ChatMessage]]:
        """One run of the agent, which goes on from the session's messages, and from what it is told of turns that were
        given up; of several, one that begins anew, and whose task begins with that."""
        refuse(self.agent, self.name)
        turn = current_turn()
        in_turn = InTurn(turn, self.name, self._retries, self._approvals, self._stream)
        told = await tell_elsewhere(turn, state, read_result)
        given, office = dict(await self._given(message)), takes_office(self.agent)
        if not isinstance(self.agent, Agent):
            several = copy_of_several(turn, self.agent, in_turn)
            task = _after(told, prompt_of(message, office=office))
            reply = ChatMessage.assistant_message(
                content=sendable(text_of(several, await _finished(several, in_turn, task, given)))
            )
            return reply, [*state, *told, message, reply]
        agent = copy_for(self.agent, in_turn)
        history = history_of(state, office=office)
        agent.messages = [*([] if history.whole else agent.messages), *history.messages]
        if history.messages:
            agent.conversation_manager.apply_management(agent)  # as it was after the turn before
        if history.state is not None:
            agent.state = TurnState(history.state)
        before, state_before = list(agent.messages), agent.state.get()
        prompt: Any = prompt_of(message, before, office=office)
        if told:
            # The last calls go with their results: Strands answers those that it finds without any.
            *earlier, called, results = told_of(told, before, office=office)
            agent.messages += earlier
            said = [{"text": prompt}] if isinstance(prompt, str) else prompt
            prompt = [called, {**results, "content": [*results["content"], *said]}]
        result = await _finished(agent, in_turn, prompt, given)
        state_after = agent.state.get()
        messages = turn_of(
            message,
            str(result).removesuffix("\n"),
            before=before,
            after=agent.messages,
            added=in_turn.added,
            told=told,
            state=history.state if state_after == state_before else state_after,
        )
        return messages[-1], [*without_states(state), *messages]

    async def _given(self, message: ChatMessage) -> Mapping[str, Any]:
        context = current_turn().context
        given = message.user_params if context is None else context
        if self._invocation_state is not None:
            made = self._invocation_state(given)
            return await made if inspect.isawaitable(made) else made
        if given is not None and not isinstance(given, Mapping):
            raise AgentLoadError(
                f"the agent {self.name!r} takes a dict as its invocation_state, and the context of the run is a "
                f"{type(given).__name__}: as_agent(agent, invocation_state=...) of hitl.ext.strands makes the one of "
                "the other"
            )
        return given or {}


def _after(told: list[ChatMessage], prompt: Any) -> Any:
    """A task, with what was done before it."""
    if not told:
        return prompt
    return f"{as_text(told)}\n\n{prompt}" if isinstance(prompt, str) else [{"text": as_text(told)}, *prompt]


async def _finished(runner: Any, in_turn: InTurn, prompt: Any, given: dict[str, Any]) -> Any:
    """The result of a run that nothing is left to ask of.

    What hooks, tools and middleware of calls ask is answered before they go on. What comes out here is what middleware
    of a whole run asks, which nobody but the framework can call again: it goes on with each answer that is there.
    """
    waiting: dict[asyncio.Task[Any], str] = {}
    try:
        result = await runner.invoke_async(prompt, invocation_state=given)
        while result.interrupts:
            for interrupt in result.interrupts:
                if interrupt.id not in waiting.values():
                    with in_turn.speaking(), permit():
                        asking = asyncio.create_task(put_question(in_turn.turn, interrupt, None))
                    waiting[asking] = interrupt.id
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            answers = [
                {"interruptResponse": {"interruptId": waiting.pop(each), "response": each.result()}} for each in done
            ]
            result = await runner.invoke_async(answers, invocation_state=given)
        return result
    finally:
        for asking in waiting:
            asking.cancel()
