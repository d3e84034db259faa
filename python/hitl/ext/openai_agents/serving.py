"""An agent of the OpenAI Agents SDK as one of ours: a message in, a run of it, a reply out."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, Final

from agents import Agent, Handoff, HostedMCPTool, ItemHelpers, RunConfig, RunHooks, Runner, RunState, Tool
from agents.agent import AgentBase
from agents.mcp import MCPUtil
from agents.run import DEFAULT_MAX_TURNS, get_default_agent_runner, set_default_agent_runner
from pydantic_core import to_json

from hitl.agents.abandoned import tell_elsewhere
from hitl.errors import AgentLoadError
from hitl.ext.gating import GateOptions, read_approvals
from hitl.ext.openai_agents import calls, guardrails, hosted, local_tools, mcp, models, seams, tracing
from hitl.ext.openai_agents.memory import UNNAMED, memory_of
from hitl.ext.openai_agents.messages import Item, history_of, last_agent, plain, prompt_of, turn_of
from hitl.ext.openai_agents.models import with_notes
from hitl.ext.openai_agents.runner import TurnAgentRunner
from hitl.ext.openai_agents.sessions import without_known
from hitl.ext.turns import check_rules_reach, is_in_turn
from hitl.messages import ChatMessage
from hitl.turn.retrying import Retries, Transient, check_retries, is_transient
from hitl.turn.runtime import Turn, current_turn

Context = Callable[[Any], Any | Awaitable[Any]]
"""Makes the context of a run of what a turn began with: the ``context`` of ``hitl.run``, or else the message's
``user_params``."""

Sessions = Callable[[str], Any]
"""Makes a session of the SDK of a session's id."""

_STATE: Final = "openai_agents_state"
"""The member of a message's ``user_params`` with a state of the SDK that the turn goes on from."""


def is_agent(candidate: Any) -> bool:
    """Whether it is an agent of the SDK."""
    return isinstance(candidate, Agent)


def as_agent(
    agent: Agent[Any],
    *,
    name: str | None = None,
    context: Context | None = None,
    session: Sessions | None = None,
    run_config: RunConfig | None = None,
    approvals: Mapping[str, GateOptions] | None = None,
    max_turns: int | None = DEFAULT_MAX_TURNS,
    hooks: RunHooks[Any] | None = None,
    error_handlers: Any = None,
    stream: bool = True,
    retries: int = 2,
    transient: Transient = "suspend",
) -> OpenAIAgents:
    """An agent of the OpenAI Agents SDK to be served or run, with options.

    - ``name``: what clients, rules and the journal call it; the agent's own name otherwise.
    - ``context``: called at the begin of each run of a turn, also when it goes on after a restart, with the JSON that
      the turn began with: the ``context`` of ``hitl.run``, or else the ``user_params`` of the message. Returns the
      context of the run, or an awaitable of it. What it opens is not journaled.
    - ``session``: called with the id of hitl's session, returns a session of the SDK that conversations are kept in;
      without it they are kept in hitl's.
    - ``approvals``: how to ask about calls of function tools, by tool: ``description``, ``allowed_decisions``,
      ``approvers``, ``expires_in``.
    - ``run_config``, ``max_turns``, ``hooks``, ``error_handlers``: as for ``Runner.run``.
    - ``stream``: whether models are asked for their words one by one, for whoever watches.
    - ``retries``: how often a model is asked again after errors that may pass; ``transient``: whether the last of them
      suspends the turn, to be retried, or is raised.
    """
    if not is_agent(agent):
        raise TypeError(f"as_agent() takes an agent of the OpenAI Agents SDK, got {type(agent).__name__}")
    check_retries("as_agent()", retries, transient)
    options = {"max_turns": max_turns, "hooks": hooks, "error_handlers": error_handlers}
    config = run_config or RunConfig()
    return OpenAIAgents(
        agent,
        name or agent.name or UNNAMED,
        context,
        session,
        config,
        read_approvals(approvals),
        options,
        stream,
        Retries(retries, transient, is_transient),
    )


def message_of(state: RunState[Any] | str) -> ChatMessage:
    """The message that a session, or a run, goes on with from where a run of the SDK by itself was interrupted.

    ``state``: as ``result.to_state()`` gives it, or its ``to_string()``. What it leaves undecided is asked; on a
    server, where anybody may have written it, what it has decided is asked too. Its context is not taken:
    ``as_agent(context=)`` makes one.
    """
    text = (
        state
        if isinstance(state, str)
        else state.to_string(context_serializer=lambda context: {}, strict_context=False)
    )
    kept = json.loads(text)
    original = kept.get("original_input")
    return ChatMessage.user_message(content=original if isinstance(original, str) else "", user_params={_STATE: text})


async def _believed(turn: Turn, text: str) -> str:
    """As much of a state of the SDK's as can be believed: all of it where whoever has it runs it. What a server is
    sent may say that everything was approved: what was decided is asked again."""

    async def body() -> bool:
        return turn.is_own_run

    if await turn.run_step("policy", "decisions of the state", body, key=_STATE, past=True):
        return text
    return json.dumps(_undecided(json.loads(text)))


def _undecided(kept: Any) -> Any:
    """The JSON of a state, and of those of agents as tools in it, without what was decided: in its ``context`` that is
    ``approvals``, and in newer releases more of such a name."""
    if isinstance(kept, list):
        return [_undecided(each) for each in kept]
    if not isinstance(kept, dict):
        return kept
    said = kept.get("context")
    if isinstance(said, dict):
        kept = {**kept, "context": {name: each for name, each in said.items() if not name.endswith("approvals")}}
    return {name: _undecided(each) for name, each in kept.items()}


class OpenAIAgents:
    """An agent of the OpenAI Agents SDK that runs turns. Made by ``as_agent``."""

    distribution: Final = "openai-agents"
    """The package whose version matters for what waits."""

    def __init__(
        self,
        agent: Agent[Any],
        name: str,
        context: Context | None,
        session: Sessions | None,
        config: RunConfig,
        approvals: Mapping[str, GateOptions],
        options: dict[str, Any],
        stream: bool,
        retries: Retries,
    ) -> None:
        self.agent = agent
        self.name = name
        self._context = context
        self._session = session
        self._config = config
        self._approvals = approvals
        self._options = options
        self._stream = stream
        self._retries = retries

    def prepare(self) -> None:
        """Find out before the first turn what would keep each of them from running: AgentLoadError."""
        names = [agent.name for agent in reachable(self.agent)]
        double = sorted({name for name in names if names.count(name) > 1})
        if double:
            raise AgentLoadError(
                f"several agents that {self.name!r} hands over to are called {double[0]!r}",
                "give each a name of its own: rules, grants and the journal know them by it",
            )

    async def run_turn(self, message: ChatMessage, state: list[ChatMessage]) -> tuple[ChatMessage, list[ChatMessage]]:
        """One run of the agent, which goes on from the session's messages, and from what it is told of turns that were
        given up."""
        tracing.install()  # the program may have set a provider of its own since
        turn = current_turn()
        memory = memory_of(turn)
        memory.root, memory.stream, memory.retries = self.agent, self._stream, self._retries
        memory.approvals = self._approvals
        taken = (message.user_params or {}).get(_STATE)
        options = {**self._options, "context": await self._context_for(message), "run_config": self._config_for(turn)}
        if self._session is not None:
            options["session"] = self._session(turn.session_id or turn.turn_id)
        told = await tell_elsewhere(turn, state, calls.read_result)
        agent, done = self.agent, False
        input: Any
        if taken is not None:
            input = await RunState.from_string(self.agent, await _believed(turn, taken))
            if told:
                began_with = ItemHelpers.input_to_new_input_list(input._original_input)
                input._original_input = [*history_of(told), *began_with]
            options.pop("max_turns")
        elif self._session is not None:
            unknown = await without_known(told, options["session"])
            agent, input = self._speaker(state), [*history_of(unknown), prompt_of(message)]
        else:
            agent, input = self._speaker(state), [*history_of([*state, *told]), prompt_of(message)]
        try:
            result = await Runner.run(agent, input, **options)
            done = True
        finally:
            await mcp.leave(turn, wait=done)
        made = [each.to_input_item() for each in result.new_items if each.type != "tool_approval_item"]
        items: list[Item] = with_notes(plain(made), memory.notes, "")
        output = result.final_output
        reply = output if isinstance(output, str) else to_json(output, fallback=repr).decode()
        messages = turn_of(message, items, reply, result.last_agent.name)
        return messages[-1], [*state, *told, *messages]

    def _speaker(self, state: list[ChatMessage]) -> Agent[Any]:
        """Who goes on with the conversation: the agent that it was handed to."""
        name = last_agent(state)
        return next((agent for agent in reachable(self.agent) if agent.name == name), self.agent)

    def _config_for(self, turn: Any) -> RunConfig:
        config = self._config
        if config.group_id is None and turn.session_id:
            config = dataclasses.replace(config, group_id=turn.session_id)
        return config

    async def _context_for(self, message: ChatMessage) -> Any:
        context = current_turn().context
        if self._context is None:
            return context
        made = self._context(message.user_params if context is None else context)
        return await made if inspect.isawaitable(made) else made


def reachable(agent: Agent[Any]) -> Iterator[Agent[Any]]:
    """The agent, and those that it hands over to, each once."""
    seen: list[Agent[Any]] = [agent]
    for each in seen:
        yield each
        for target in each.handoffs:
            found = target._agent_ref() if isinstance(target, Handoff) and target._agent_ref else target
            if isinstance(found, Agent) and not any(found is known for known in seen):
                seen.append(found)


async def _all_tools(self: AgentBase[Any], run_context: Any) -> list[Tool]:
    tools: list[Tool] = await seams.get_all_tools(self, run_context)
    if not is_in_turn():
        if any(isinstance(tool, (HostedMCPTool, *local_tools.LOCAL_TOOLS)) for tool in tools):
            # Outside of a turn their calls come by nowhere: who has one does not begin.
            check_rules_reach(lambda: f"the agent {self.name}", calls.PAST_THE_LOOP)
        return tools
    return [_of_turn(tool) for tool in tools]


def _of_turn(tool: Tool) -> Tool:
    """A tool, as its calls in a turn see it. Function tools are left as they are: see ``calls``."""
    if isinstance(tool, HostedMCPTool):
        return hosted.gated(tool)
    return local_tools.journaled(tool) if isinstance(tool, local_tools.LOCAL_TOOLS) else tool


@functools.cache
def _install() -> None:
    """Let whatever runs in a turn be journaled: agents that tools and guardrails run too."""
    seams.put_model(models.journaled)
    seams.put_tools(calls.decide, calls.invoke)
    AgentBase.get_all_tools = _all_tools  # type: ignore[method-assign]
    MCPUtil.get_all_function_tools = staticmethod(mcp.function_tools)  # type: ignore[method-assign]
    guardrails.install()
    set_default_agent_runner(TurnAgentRunner(get_default_agent_runner()))


_install()
