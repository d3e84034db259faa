"""Agents of every shape, and what takes them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, assert_type

import agents as openai_agents
from agents.testing import ScriptedModel
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai.models.test import TestModel

import hitl
from hitl import (
    Agent,
    AgentRuntime,
    ChatMessage,
    Compaction,
    HookCall,
    HookFailed,
    InvalidOutput,
    MaxStepsExceeded,
    MCPServerError,
    MCPTools,
    ModelNotConfigured,
    ModelUnavailable,
    ReActAgent,
    ReplyCutShort,
    RunContext,
    RunResult,
    TokenLimitExceeded,
    Tool,
    TransientError,
)
from hitl.ext.openai_agents import as_agent as as_openai_agent
from hitl.ext.openai_agents import message_of
from hitl.ext.pydantic_ai import as_agent
from hitl.models import (
    AnthropicChatClient,
    ChatClient,
    Delta,
    FallbackChatClient,
    InvalidSettings,
    ModelReply,
    ModelRequest,
    ModelSettings,
    OpenAIChatClient,
    OpenAIResponsesClient,
    OpenRouterChatClient,
    ResponseFormat,
)
from hitl.testing import ScriptedChatClient

Turn = tuple[ChatMessage, list[ChatMessage]]


async def plain(message: ChatMessage, state: list[ChatMessage]) -> Turn:
    reply = ChatMessage.assistant_message(content=message.content)
    return reply, [*state, message, reply]


def blocking(message: ChatMessage, state: list[ChatMessage]) -> Turn:
    return message, state


class Echo:
    """An object with `run_turn`; its parameters may have any names."""

    async def run_turn(self, said: ChatMessage, before: list[ChatMessage]) -> Turn:
        return said, before


class BlockingEcho:
    def run_turn(self, message: ChatMessage, state: list[ChatMessage]) -> Turn:
        return message, state


class Called:
    async def __call__(self, message: ChatMessage, state: list[ChatMessage]) -> Turn:
        return message, state


@hitl.agent(version="2", name="mail", replay=True)
async def versioned(message: ChatMessage, state: list[ChatMessage]) -> Turn:
    return message, state


@hitl.agent
class Bare:
    async def run_turn(self, message: ChatMessage, state: list[ChatMessage]) -> Turn:
        return message, state


react = ReActAgent(client=ScriptedChatClient([{"content": "hello"}]), name="clerk")


async def makes_one_later() -> Echo:
    return Echo()


parrot: PydanticAgent[None, str] = PydanticAgent(TestModel(), name="parrot", deps_type=type(None))
triage: openai_agents.Agent[None] = openai_agents.Agent(name="triage", model=ScriptedModel([]))

AGENTS: list[Agent] = [
    plain,
    blocking,
    Echo(),
    BlockingEcho(),
    Called(),
    versioned,
    Bare(),
    react,
    makes_one_later,
    parrot,
    as_agent(parrot, deps=lambda params: None, retries=0),
    triage,
    as_openai_agent(triage, context=lambda params: None, max_turns=3, retries=0),
]
"""Whatever runs turns is an `Agent`."""


async def ask_all(agents: Sequence[Agent]) -> list[RunResult]:
    return [await hitl.run(agent, "hello") for agent in agents]


@dataclass
class Order:
    id: str


async def typed_answers(client: ChatClient) -> None:
    """The output is of the type that the agent was told, and text without one."""
    order = ReActAgent(client, output_type=Order)
    assert_type(order, ReActAgent[Order])
    result = await hitl.run(order, "hello")
    assert_type(result.output, Order | None)
    if result.status == "idle":
        assert_type(result.output, Order)
        assert_type(result.finish_reason, str | None)
    lines = ReActAgent(client, output_type=list[Order])
    assert_type(hitl.run_sync(lines, "hello").output, list[Order] | None)
    either = ReActAgent(client, output_type=Order | int)
    assert_type(hitl.stream(either, "hello").result.output, Order | int | None)
    assert_type(hitl.stream_sync(either, "hello").result.output, Order | int | None)
    text = ReActAgent(client)
    assert_type(text, ReActAgent[str])
    assert_type((await hitl.run(text, "hello")).output, str | None)
    assert_type((await hitl.run(plain, "hello")).output, str | None)
    ReActAgent(client, output_type=3)  # pyright: ignore[reportArgumentType]


async def kept_order(agent: ReActAgent[Order]) -> RunResult[Order]:
    try:
        return await hitl.run(agent, "hello")
    except (InvalidOutput, TokenLimitExceeded):
        raise
    except ReplyCutShort as cut:
        assert_type(cut.finish_reason, str)
        raise


async def take_in(result: openai_agents.RunResult) -> RunResult:
    return await hitl.run(triage, message_of(result.to_state()))


def no_agents() -> None:
    async def takes_one(message: ChatMessage) -> Turn:
        return message, []

    async def returns_text(message: ChatMessage, state: list[ChatMessage]) -> str:
        return "hello"

    class Walks:
        def run(self) -> None: ...

    one: Agent = takes_one  # pyright: ignore[reportAssignmentType]
    text: Agent = returns_text  # pyright: ignore[reportAssignmentType]
    walks: Agent = Walks()  # pyright: ignore[reportAssignmentType]
    hitl.run_sync("module:agent", "hello")  # pyright: ignore[reportArgumentType, reportCallIssue]
    print(one, text, walks)


class Recorded:
    """A chat client of one's own."""

    async def complete(self, request: ModelRequest) -> ModelReply:
        if request.on_delta is not None:
            delta: Delta = {"content": "hel"}
            request.on_delta(delta)
        assert_type(request.response_format, ResponseFormat | None)
        assert_type(request.settings, ModelSettings)
        if request.settings.get("tool_choice") == "required":
            raise InvalidSettings("no tools here")
        return ModelReply(ChatMessage.assistant_message(content="hello"), {"input_tokens": 1}, "stop")


def plain_tool(text: str) -> int:
    return len(text)


def configured(client: ChatClient) -> ReActAgent:
    def look(call: HookCall) -> str | None:
        if call.name == "drop":
            raise HookFailed("no")
        return None if call.agent else str(call.args)

    async def later(call: HookCall) -> None:
        assert_type(call.tool_call_id, str)

    def first(message: ChatMessage) -> str:
        return f"please: {message.content}"

    def recent(ctx: RunContext, messages: list[ChatMessage]) -> list[ChatMessage]:
        return messages[-20:]

    async def instructions(ctx: RunContext[dict[str, str]]) -> str:
        return f"You talk to {ctx.context['user']}."

    async def shorter(ctx: RunContext, messages: list[ChatMessage]) -> Sequence[ChatMessage]:
        return messages

    summary = Compaction(over_tokens=30_000)
    inner = ReActAgent(
        client,
        "small",
        name="inner",
        description="Looks things up.",
        history_processors=[recent, summary, shorter],
    )
    as_tool = inner.as_tool(requires_approval=lambda ctx, args: len(args["input"]) > 10)
    assert_type(as_tool, Tool[..., Any])
    return ReActAgent(
        client=client,
        model_name="large",
        name="outer",
        system_prompt=instructions,
        compaction=Compaction(over_tokens=50_000, keep_tokens=5_000, client=client, model_name="small"),
        history_processors=[recent],
        token_limit=10_000,
        max_parallel_tools=2,
        settings={"temperature": 0, "tool_choice": "plain_tool", "stop": ["END"]},
        tools=[as_tool, plain_tool, MCPTools(command=["server"], requires_approval={"write": True})],
        handoffs=[inner],
        hooks=[look, later],
        max_steps=5,
        timeout=60,
        input_guardrails=[first],
        retries=1,
        transient="raise",
    )


def wrong_options(client: ChatClient) -> None:
    ReActAgent(client, transient="perhaps")  # pyright: ignore[reportArgumentType]
    ReActAgent("gpt")  # pyright: ignore[reportArgumentType]
    ReActAgent(client, tool=[])  # pyright: ignore[reportCallIssue]
    ReActAgent(client, history_processors=[Compaction])  # pyright: ignore[reportArgumentType]
    ReActAgent(client, hooks=[lambda: None])  # pyright: ignore[reportArgumentType]


async def by_hand(agent: ReActAgent) -> str | None:
    reply, state = await agent.run_turn(ChatMessage.user_message(content="hello"), [])
    assert_type(reply, ChatMessage)
    assert_type(state, list[ChatMessage])
    run = hitl.current_run()
    if run is not None:
        assert_type(run.runtime, AgentRuntime)
        assert_type(run.runtime.session_id, str | None)
    return reply.content


def clients() -> list[ChatClient]:
    responses, claude = OpenAIResponsesClient(retries=0), AnthropicChatClient(timeout=1.0)
    either = FallbackChatClient([responses, (claude, "claude-opus-5-5")], falls_back_on=lambda error: True)
    return [OpenAIChatClient(), OpenRouterChatClient(), responses, claude, either, ScriptedChatClient([]), Recorded()]


ERRORS: tuple[type[Exception], ...] = (
    MaxStepsExceeded,
    MCPServerError,
    ModelNotConfigured,
    ModelUnavailable,
    TransientError,
)
