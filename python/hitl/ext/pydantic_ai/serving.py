"""An agent of pydantic-ai as one of ours: a message in, a run of it, a reply out."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from importlib import import_module
from typing import Any, Final

from pydantic_ai.agent import AbstractAgent, WrapperAgent
from pydantic_ai.capabilities import AbstractCapability, ReinjectSystemPrompt
from pydantic_ai.durable_exec import JSON_CODEC, CallToolResult, replay_scope
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import ModelMessagesTypeAdapter, ModelResponse
from pydantic_ai.models import Model
from pydantic_core import to_json

from hitl.agents.abandoned import tell_elsewhere
from hitl.errors import AgentLoadError
from hitl.ext.pydantic_ai.backend import read_result
from hitl.ext.pydantic_ai.deps import fits, is_none, name_of_type
from hitl.ext.pydantic_ai.durability import UNNAMED, HitlDurability
from hitl.ext.pydantic_ai.messages import history_of, profiles_of, prompt_of, turn_of, with_system_prompt, without_told
from hitl.messages import ChatMessage
from hitl.turn.retrying import Transient
from hitl.turn.runtime import current_turn

Deps = Callable[[Any], Any | Awaitable[Any]]
"""Makes ``deps`` of what a turn began with: the ``context`` of ``hitl.run``, or else the message's ``user_params``."""


def is_agent(candidate: Any) -> bool:
    """Whether it is an agent of pydantic-ai."""
    return isinstance(candidate, AbstractAgent)


def as_agent(
    agent: AbstractAgent[Any, Any],
    *,
    name: str | None = None,
    deps: Deps | None = None,
    models: Mapping[str, Model] | None = None,
    stream: bool = True,
    retries: int = 2,
    transient: Transient = "suspend",
) -> PydanticAI:
    """An agent of pydantic-ai to be served or run, with options.

    - ``name``: what clients, rules and the journal call it; the agent's own name otherwise.
    - ``deps``: called at the begin of each run of a turn, also when it goes on after a restart, with the JSON that the
      turn began with: the ``context`` of ``hitl.run``, or else the ``user_params`` of the message. Returns the agent's
      ``deps``, or an awaitable of them. What they open is not journaled. Without it the ``context`` is the ``deps``:
      one that is not of the agent's ``deps_type`` is an AgentLoadError.
    - ``models``: models that a run may switch to, by id.
    - ``stream``: whether models are asked for their words one by one, for whoever watches.
    - ``retries``: how often a model is asked again after errors that may pass; ``transient``: whether the last of them
      suspends the turn, to be retried, or is raised.
    """
    if not is_agent(agent):
        raise TypeError(f"as_agent() takes an agent of pydantic-ai, got {type(agent).__name__}")
    durability = HitlDurability(
        models=models,
        name=name or agent.name or UNNAMED,
        stream=stream,
        retries=retries,
        transient=transient,
    )
    return PydanticAI(agent, durability, deps)


class PydanticAI:
    """An agent of pydantic-ai that runs turns. Made by ``as_agent``."""

    distribution: Final = "pydantic-ai-slim"
    """The package whose version matters for what waits."""

    def __init__(self, agent: AbstractAgent[Any, Any], durability: HitlDurability, deps: Deps | None) -> None:
        self.agent = agent
        self.name = durability.name
        self._durability = durability
        self._deps = deps

    def prepare(self) -> None:
        """Find out before the first turn what would keep each of them from running: AgentLoadError. And make, before
        workers are forked, what the framework would make in the first turn of each."""
        if self._deps is None and not fits(None, self.agent.deps_type):
            raise AgentLoadError(
                f"the agent {self.name!r} needs deps of type {name_of_type(self.agent.deps_type)}",
                "serve as_agent(agent, deps=...) of hitl.ext.pydantic_ai: deps= is a function that makes them",
            )
        agent = self.agent
        while isinstance(agent, WrapperAgent):
            agent = agent.wrapped
        if HitlDurability.from_agent(agent) is None:
            try:
                self._durability.for_agent(agent)
            except UserError as error:
                raise AgentLoadError(f"the agent {self.name!r} cannot be served: {error}") from error
        _make_codecs()

    async def run_turn(self, message: ChatMessage, state: list[ChatMessage]) -> tuple[ChatMessage, list[ChatMessage]]:
        """One run of the agent, which goes on from the session's messages, and from what it is told of turns that were
        given up."""
        own: list[AbstractCapability[Any]] = []
        if HitlDurability.from_agent(self.agent) is None:
            own.append(self._durability)
        turn, profiles = current_turn(), profiles_of(self.agent.model)
        told = await tell_elsewhere(turn, state, read_result)
        if told and not state:
            own.append(ReinjectSystemPrompt())  # the framework gives one to a conversation without messages alone

        def has_ended_elsewhere() -> bool:
            """Of a span that ends now: in an earlier run of the turn, or in a later one, as the turn leaves memory."""
            return turn.has_ended or not turn.order.is_live

        with replay_scope(is_replaying=has_ended_elsewhere):
            result = await self.agent.run(
                prompt_of(message, profiles),
                message_history=history_of([*state, *told], profiles) or None,
                deps=await self._deps_for(message),
                capabilities=own,
                infer_name=False,
            )
        output = result.output
        reply = output if isinstance(output, str) else to_json(output, fallback=repr).decode()
        made, before = result.new_messages(), history_of(told, profiles)
        if told and not state:
            before = with_system_prompt(before, result.all_messages()[: -len(made)])
        if told:
            made = without_told(made, before)
        messages = turn_of(message, made, reply, told, before)
        return messages[-1], [*state, *messages]

    async def _deps_for(self, message: ChatMessage) -> Any:
        context = current_turn().context
        if self._deps is None:
            return self._as_deps(context)
        made = self._deps(message.user_params if context is None else context)
        return await made if inspect.isawaitable(made) else made

    def _as_deps(self, context: Any) -> Any:
        wanted = self.agent.deps_type
        if context is None or fits(context, wanted):
            return context
        if is_none(wanted):
            what = "no deps, and the run has a context"
        else:
            what = f"deps of type {name_of_type(wanted)}, and the context of the run is a {type(context).__name__}"
        raise AgentLoadError(
            f"the agent {self.name!r} takes {what}: as_agent(agent, deps=...) of hitl.ext.pydantic_ai makes the one of "
            "the other"
        )


def _make_codecs() -> None:
    """What messages, replies and results of tools are read and written by: a tenth of a second of CPU."""
    import_module("anyio._backends._asyncio")
    ModelMessagesTypeAdapter.validate_python(ModelMessagesTypeAdapter.dump_python([]))
    JSON_CODEC.load(ModelResponse, JSON_CODEC.dump(ModelResponse, ModelResponse(parts=[])))
    JSON_CODEC.load(CallToolResult, {"kind": "tool_return", "result": None})
