"""The context of a turn that is given none: made of its message, once, by whichever agent declares how."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

import hitl
from hitl import ChatMessage, ReActAgent, RunContext, TurnRequest, tool
from hitl.testing import HitlServer, Human, ScriptedChatClient

ACME = ChatMessage.user_message(content="go", user_params={"tenant": "acme"})


@tool
async def who(ctx: RunContext[Any, None]) -> str:
    """The context."""
    return str(ctx.context)


@tool
async def pool(ctx: RunContext) -> str:
    """The resources."""
    return str(ctx.resources)


@tool(requires_approval=True)
async def gated() -> str:
    """Run once somebody has said yes."""
    return "done"


@hitl.resources
async def declared() -> AsyncIterator[str]:
    yield "the pool"


def calls(*names: str) -> ScriptedChatClient:
    rounds: list[Any] = [{"tool_calls": [{"name": name}]} for name in names]
    return ScriptedChatClient([*rounds, {"content": "done"}])


def told(result: hitl.RunResult) -> list[str | None]:
    return [message.content for message in result.messages if message.role == "tool"]


async def approved(made: Any, waiting: hitl.RunResult) -> hitl.RunResult:
    assert waiting.state is not None
    waiting.state.approve(waiting.interrupts[0])
    return await hitl.run(made, waiting.state)


class Asked:
    """A `context_from`, and what it was asked."""

    def __init__(self) -> None:
        self.seen: list[TurnRequest] = []

    def __call__(self, request: TurnRequest) -> Any:
        self.seen.append(request)
        return request.user_params.get("tenant", "nobody")


@pytest.fixture
def asked() -> Asked:
    return Asked()


def agent(asked: Asked | None, *names: str) -> ReActAgent:
    return ReActAgent(name="shop", client=calls(*names), tools=[who, pool, gated], context_from=asked)


async def test_makes_the_context_of_a_run_that_was_given_none(asked: Asked) -> None:
    assert told(await hitl.run(agent(asked, "who"), ACME)) == ["acme"]
    assert [(request.agent, request.user_params) for request in asked.seen] == [("shop", {"tenant": "acme"})]


async def test_a_given_one_goes_before(asked: Asked) -> None:
    assert told(await hitl.run(agent(asked, "who"), "go", context="given")) == ["given"]
    assert asked.seen == []


def test_is_asked_once_also_where_the_turn_is_replayed(
    hitl_server: HitlServer, hitl_replay: HitlServer, human: Human, asked: Asked
) -> None:
    client = calls("gated", "who")
    made = ReActAgent(client=client, tools=[gated, who])
    human.on("gated").approve()
    server = hitl_server(made, context_from=asked)
    server.send({"role": "user", "content": "go", "user_params": {"tenant": "acme"}})
    assert client.requests[-1]["messages"][-1]["content"] == "acme"
    assert len(asked.seen) == 1


async def test_a_run_that_was_begun_without_it_goes_on_without_it(asked: Asked) -> None:
    waiting = await hitl.run(agent(None, "gated", "who"), ACME)
    assert told(await approved(agent(asked, "gated", "who"), waiting)) == ["done", "None"]
    assert asked.seen == []


async def test_what_it_changes_in_the_message_is_no_part_of_the_turn() -> None:
    """A replay would not see it."""

    def change(request: TurnRequest) -> str:
        request.message.content = "changed"
        assert request.message.user_params is not None
        request.message.user_params["tenant"] = "changed"
        return "made"

    made = ReActAgent(client=calls("who"), tools=[who], context_from=change)
    given = ChatMessage.from_dict(ACME.to_dict())
    assert (await hitl.run(made, given)).messages[0] == ACME


class TestOfAnAgentThatAFactoryMakes:
    async def test_it_makes_the_context_too_and_once(self, asked: Asked) -> None:
        def made() -> ReActAgent:
            return agent(asked, "gated", "who")

        assert told(await approved(made, await hitl.run(made, ACME))) == ["done", "acme"]
        assert len(asked.seen) == 1

    async def test_that_of_the_factory_goes_before(self, asked: Asked) -> None:
        @hitl.agent(context_from=lambda request: "the factory's")
        def made() -> ReActAgent:
            return agent(asked, "gated", "who")

        assert told(await approved(made, await hitl.run(made, ACME))) == ["done", "the factory's"]
        assert asked.seen == []

    async def test_it_has_the_resources_that_it_declares(self) -> None:
        inner = agent(None, "pool")

        @hitl.agent(resources=declared)
        async def own(message: ChatMessage, state: list[ChatMessage]) -> Any:
            return await inner.run_turn(message, state)

        def made() -> Any:
            return own

        assert told(await hitl.run(made, "go")) == ["the pool"]
        assert told(await hitl.run(made, "go", resources="another")) == ["another"]


async def test_an_agent_with_options_keeps_what_it_declares(asked: Asked) -> None:
    made = hitl.agent(name="other")(ReActAgent(client=calls("who", "pool"), tools=[who, pool], context_from=asked))
    assert told(await hitl.run(made, ACME)) == ["acme", "None"]
    both = hitl.agent(context_from=lambda request: "mine")(agent(asked, "who"))
    assert told(await hitl.run(both, ACME)) == ["mine"]


async def test_attributes_of_somebody_elses_agent_are_not_taken_for_it() -> None:
    class Foreign:
        resources = declared
        context_from = "a table of its own"

        async def run_turn(self, message: ChatMessage, state: list[ChatMessage]) -> Any:
            return ChatMessage.assistant_message(content="ran"), state

    assert (await hitl.run(Foreign(), "go")).output == "ran"


def test_a_function_that_takes_no_request_is_refused() -> None:
    with pytest.raises(TypeError, match="context_from must take one argument, the TurnRequest"):
        ReActAgent(context_from=lambda: None)  # type: ignore[arg-type,misc]  # wrong on purpose
