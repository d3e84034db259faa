"""What is decided for always about a tool of one agent is not decided about that of another of the same name."""

from __future__ import annotations

from typing import Any

import hitl
from hitl import ReActAgent, tool
from hitl.testing import ScriptedChatClient


def calls(name: str, **args: Any) -> dict[str, Any]:
    return {"tool_calls": [{"name": name, "args": args}]}


class Till:
    """A tool `pay` of each agent, and what was paid."""

    def __init__(self) -> None:
        self.paid: list[tuple[str, int]] = []

    def payer(self, account: str, cents: int, **options: Any) -> ReActAgent:
        @tool(requires_approval=True)
        async def pay(cents: int) -> str:
            """Pay."""
            self.paid.append((account, cents))
            return "paid"

        client = ScriptedChatClient([calls("pay", cents=cents), {"content": "paid"}])
        return ReActAgent(client=client, tools=[pay], **options)


async def outcome(agent: ReActAgent) -> tuple[list[tuple[str | None, dict[str, Any] | None]], list[str | None]]:
    """Who asked about what, when everything is approved for always; and where the tools are from."""
    asked, sources = [], []
    result = await hitl.run(agent, "go")
    while result.interrupts:
        (one,) = result.interrupts
        asked.append((one.agent, one.tool_args))
        sources.append(one.to_dict().get("tool_source"))
        assert result.state is not None
        result = await hitl.run(agent, result.state.approve(one, always=True))
    assert result.status == "idle", result.error
    return asked, sources


async def test_two_tools_that_are_agents_of_one_name() -> None:
    till = Till()
    petty = till.payer("petty cash", 1, name="helper")
    company = till.payer("company", 1_000_000, name="helper")
    script = [calls("small", input="x"), calls("large", input="x"), calls("small", input="x"), {"content": "done"}]
    tools = [petty.as_tool("small"), company.as_tool("large")]
    outer = ReActAgent(client=ScriptedChatClient(script), name="boss", tools=tools)
    asked, sources = await outcome(outer)
    assert asked == [("helper", {"cents": 1}), ("helper", {"cents": 1_000_000})]
    assert sources == ["agent:boss/small", "agent:boss/large"]
    assert till.paid == [("petty cash", 1), ("company", 1_000_000), ("petty cash", 1)]


async def test_an_agent_that_has_the_name_of_the_one_that_calls_it() -> None:
    till = Till()

    @tool(requires_approval=True)
    async def pay(cents: int) -> str:
        """Pay."""
        till.paid.append(("petty cash", cents))
        return "paid"

    inner = till.payer("company", 1_000_000, name="boss")
    script = [calls("pay", cents=1), calls("deep", input="x"), {"content": "done"}]
    outer = ReActAgent(client=ScriptedChatClient(script), name="boss", tools=[pay, inner.as_tool("deep")])
    asked, sources = await outcome(outer)
    assert asked == [("boss", {"cents": 1}), ("boss", {"cents": 1_000_000})]
    assert sources == [None, "agent:boss/deep"]


async def test_an_agent_that_is_reached_twice_is_one_agent() -> None:
    till = Till()
    helper = till.payer("petty cash", 1, name="helper")
    script = [calls("one", input="x"), calls("two", input="x"), {"content": "done"}]
    tools = [helper.as_tool("one"), helper.as_tool("two")]
    asked, sources = await outcome(ReActAgent(client=ScriptedChatClient(script), name="boss", tools=tools))
    assert (asked, sources) == ([("helper", {"cents": 1})], [None])
    assert len(till.paid) == 2


async def test_the_place_comes_before_where_a_tool_is_from() -> None:
    till = Till()
    inner = till.payer("company", 1, name="the boss")
    inner.tools[0].source = "mcp:till:0123456789abcdef"
    script = [calls("deep", input="x"), {"content": "done"}]
    outer = ReActAgent(client=ScriptedChatClient(script), name="the boss", tools=[inner.as_tool("deep")])
    _, sources = await outcome(outer)
    assert sources == ["agent:the%20boss/deep mcp:till:0123456789abcdef"]
