"""Middleware: what stands around an agent's tools and model calls."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hitl import ChatMessage, ReActAgent, interrupt, step, tool
from hitl.agents.seams import AgentRuntime, current_run
from hitl.models import ModelReply, ModelRequest
from hitl.testing import ScriptedChatClient
from tests.python.support.local import run_locally
from tests.python.support.prefixes import Effects, run_all_prefixes


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


class Gates:
    """Gates every tool."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, ...]] = []

    def wrap_tools(self, tools: Any) -> Any:
        self.seen.append(tuple(each.name for each in tools))
        return tuple(tool(each, requires_approval=True) for each in tools)


def calling(**args: Any) -> ScriptedChatClient:
    return ScriptedChatClient([{"tool_calls": [{"name": "add", "args": args}]}, {"content": "done"}])


async def test_tools_are_wrapped_when_the_agent_is_made_and_the_given_ones_stay_as_they_are() -> None:
    gates = Gates()
    agent = ReActAgent(client=calling(a=1, b=2), tools=[add], middleware=[gates])
    assert gates.seen == [("add",)]
    assert add.requires_approval is False
    result = await run_locally(agent, "go", answers=lambda asked: {"type": "reject", "reason": "no"})
    assert len(result.requests) == 1


async def test_handoffs_are_wrapped_too() -> None:
    other = ReActAgent(client=ScriptedChatClient([{"content": "x"}]), name="Other")
    script = [{"tool_calls": [{"name": "transfer_to_other"}]}, {"content": "stayed"}]
    agent = ReActAgent(client=ScriptedChatClient(script), handoffs=[other], middleware=[Gates()])
    result = await run_locally(agent, "go", answers=lambda asked: {"type": "reject"})
    assert result.response.content == "stayed"


async def test_the_first_middleware_is_the_outermost() -> None:
    order: list[str] = []

    class Around:
        def __init__(self, name: str) -> None:
            self.name = name

        async def awrap_model_call(self, request: ModelRequest, handler: Any) -> ModelReply:
            order.append(f"{self.name} asks")
            reply: ModelReply = await handler(request)
            order.append(f"{self.name} answers")
            return reply

    agent = ReActAgent(client=ScriptedChatClient([{"content": "hi"}]), middleware=[Around("a"), Around("b")])
    await run_locally(agent, "go")
    assert order == ["a asks", "b asks", "b answers", "a answers"]


async def test_a_request_and_a_reply_may_be_changed() -> None:
    class Shouts:
        async def awrap_model_call(self, request: ModelRequest, handler: Any) -> ModelReply:
            extra = ChatMessage.system_message(content="Be loud.")
            reply = await handler(replace(request, messages=[extra, *request.messages]))
            louder = ChatMessage.assistant_message(content=reply.message.content.upper())
            return replace(reply, message=louder)

    client = ScriptedChatClient([{"content": "hi"}])
    result = await run_locally(ReActAgent(client=client, middleware=[Shouts()]), "go")
    assert result.response.content == "HI"
    assert [message["role"] for message in client.requests[0]["messages"]] == ["system", "user"]
    assert [message.role for message in result.state] == ["user", "assistant"]


async def test_a_middleware_may_ask_a_person_about_a_reply_and_every_replay_goes_the_same_way() -> None:
    class Reviews:
        async def awrap_model_call(self, request: ModelRequest, handler: Any) -> ModelReply:
            reply: ModelReply = await handler(request)
            if reply.message.tool_calls and not await interrupt({"type": "review"}):
                return replace(reply, message=ChatMessage.assistant_message(content="I was stopped."))
            return reply

    def make(effects: Effects) -> ReActAgent:
        @tool
        async def act(what: str) -> str:
            effects.append(what)
            return what

        script = [{"tool_calls": [{"name": "act", "args": {"what": "x"}}]}, {"content": "done"}]
        return ReActAgent(client=ScriptedChatClient(script), tools=[act], middleware=[Reviews()])

    assert (await run_all_prefixes(make, lambda asked: True)).effects == ["x"]
    stopped = await run_all_prefixes(make, lambda asked: False)
    assert stopped.effects == []
    assert stopped.response.content == "I was stopped."


async def test_before_agent_sees_the_conversation_once_and_may_put_something_beside_it() -> None:
    seen: list[Any] = []

    class Notes:
        async def before_agent(self, state: dict[str, Any], runtime: AgentRuntime) -> dict[str, Any]:
            seen.append((list(state["messages"]), runtime.agent.name, runtime.context))
            return {"budget": 5}

    @tool
    async def peek() -> Any:
        run = current_run()
        assert run is not None
        return [run.state["budget"], len(run.state["messages"])]

    client = ScriptedChatClient([{"tool_calls": [{"name": "peek"}]}, {"content": "done"}])
    agent = ReActAgent(client=client, tools=[peek], middleware=[Notes()], name="keeper")
    result = await run_locally(agent, "go", context="ctx")
    assert seen == [([ChatMessage.user_message(content="go")], "keeper", "ctx")]
    assert result.state[2].content == "[5,2]"


async def test_outside_a_run_there_is_none() -> None:
    assert current_run() is None


@pytest.mark.parametrize(
    ("given", "complaint"), [(object(), "one at least; got object"), (Gates, "Gates is a class: use Gates")]
)
def test_what_is_no_middleware_is_refused(given: Any, complaint: str) -> None:
    with pytest.raises(TypeError, match=complaint):
        ReActAgent(middleware=[given])


def test_a_middleware_that_returns_no_tools_is_named() -> None:
    class Wrong:
        def wrap_tools(self, tools: Any) -> Any:
            return [each.function for each in tools]

    with pytest.raises(TypeError, match=r"Wrong\.wrap_tools\(\) must return tools"):
        ReActAgent(tools=[add], middleware=[Wrong()])


async def test_a_middleware_that_returns_no_reply_is_named() -> None:
    class Wrong:
        async def awrap_model_call(self, request: ModelRequest, handler: Any) -> Any:
            return "hello"

    agent = ReActAgent(client=ScriptedChatClient([{"content": "hi"}]), middleware=[Wrong()])
    with pytest.raises(TypeError, match=r"Wrong\.awrap_model_call\(\) must return a ModelReply, got str"):
        await run_locally(agent, "go")


async def test_a_step_after_a_call_of_no_tool_is_no_trace_of_a_tool_that_is_gone() -> None:
    class Audit:
        async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
            said = await handler(request)
            await step(note, said.content)
            return said

    async def note(text: str) -> None:
        """Nothing is kept."""

    script = [{"tool_calls": [{"name": "ad", "args": {}}]}, {"tool_calls": [{"name": "add", "args": {"a": 1, "b": 2}}]}]

    def make(effects: Effects) -> ReActAgent:
        client = ScriptedChatClient([*script, {"content": "done"}])
        return ReActAgent(client=client, tools=[tool(add, requires_approval=True)], middleware=[Audit()])

    run = await run_all_prefixes(make, lambda asked: {"type": "approve"})
    assert run.told[0].startswith('{"error": "unknown tool')
    assert run.told[1] == "3"
