"""`ToolContext`: a tool that asks in the middle of its work."""

from __future__ import annotations

from typing import Any

import pytest

import hitl
from hitl.hooks import Agent, ToolContext, tool
from hitl.testing import ScriptedChatClient
from tests.python.hooks.asking import Hooks, answer, told

DONE = {"content": "done"}


def calling(name: str, **args: Any) -> ScriptedChatClient:
    return ScriptedChatClient([{"tool_calls": [{"name": name, "args": args, "id": "call_1"}]}, DONE])


@tool(context=True)
def delete_tool(key: str, tool_context: ToolContext) -> str:
    """Delete an object.

    Args:
        key: Which one.
    """
    approval = tool_context.interrupt("for_delete_tool", reason={"key": key})
    return f"deleted {key}" if approval == "A" else f"kept {key}: {approval}"


def test_an_option_that_there_is_not_is_named_with_what_is_like_it() -> None:
    def ask(context: ToolContext) -> None: ...

    with pytest.raises(TypeError, match="tool 'ask' has no option 'requires_aproval'\n\nhint: did you mean requires"):
        tool(ask, requires_aproval=True)
    with pytest.raises(TypeError, match="tool 'ask' has no option 'color'$"):
        tool(ask, color="red")


@pytest.mark.parametrize(("response", "text"), [("A", "deleted X"), (None, "kept X: None")])
def test_the_answer_gets_back_into_the_tool(response: Any, text: str) -> None:
    agent = Agent(client=calling("delete_tool", key="X"), tools=[delete_tool])
    result = agent("go")
    (asked,) = result.interrupts
    assert (asked.name, asked.reason) == ("for_delete_tool", {"key": "X"})
    assert agent(answer(asked, response=response)).stop_reason == "end_turn"
    assert told(agent) == [text]


def test_the_model_does_not_see_the_context() -> None:
    function = delete_tool.definition["function"]
    assert function["name"] == "delete_tool"
    assert function["description"] == "Delete an object."
    assert function["parameters"]["properties"] == {"key": {"type": "string", "description": "Which one."}}
    assert function["parameters"]["required"] == ["key"]


def test_the_context_shows_the_call() -> None:
    seen: list[Any] = []

    @tool
    async def look(key: str, ctx: ToolContext, times: int = 2) -> str:
        """Look at an object."""
        seen.append((ctx.agent, ctx.tool_use, ctx.invocation_state))
        return key * times

    agent = Agent(client=calling("look", key="X"), tools=[look])
    agent("go", invocation_state={"user": "ada"})
    assert seen == [
        (agent, {"toolUseId": "call_1", "name": "look", "input": {"key": "X", "times": 2}}, {"user": "ada"})
    ]
    assert told(agent) == ["XX"]


@pytest.mark.parametrize("is_async", [False, True])
def test_several_questions_in_turn(is_async: bool) -> None:
    def both(context: ToolContext) -> str:
        return f"{context.interrupt('first')} {context.interrupt('second')}"

    @tool(name="ask", context="where")
    def ask(where: Any) -> str:
        """Ask."""
        return both(where)

    @tool(name="ask")
    async def ask_async(where: ToolContext) -> str:
        """Ask."""
        return both(where)

    agent = Agent(client=calling("ask"), tools=[ask_async if is_async else ask])
    first = agent("go")
    second = agent(answer(*first.interrupts, response="one"))
    assert [each.name for each in (*first.interrupts, *second.interrupts)] == ["first", "second"]
    agent(answer(*second.interrupts, response="two"))
    assert told(agent) == ["one two"]


def test_steps_before_a_question_of_a_tool_in_a_thread_run_once() -> None:
    ran: list[str] = []

    @tool
    def ask(ctx: ToolContext) -> str:
        """Ask."""
        hitl.step.sync(ran.append, "first")
        one = ctx.interrupt("one")
        hitl.step.sync(ran.append, "second")
        return f"{one} {ctx.interrupt('two')} {ctx.interrupt('one')}"

    agent = Agent(client=calling("ask"), tools=[ask])
    one = agent("go")
    two = agent(answer(*one.interrupts, response=1))
    assert ran == ["first", "second"]
    agent(answer(*two.interrupts, response=2))
    assert ran == ["first", "second"]
    assert told(agent) == ["1 2 1"]


async def test_an_async_tool_is_called_again_from_its_top() -> None:
    ran: list[str] = []

    @tool
    async def ask(ctx: ToolContext) -> str:
        """Ask."""
        ran.append("before")
        approval = ctx.interrupt("q")
        ran.append("after")
        return str(approval)

    agent = Agent(client=calling("ask"), tools=[ask])
    result = await agent.invoke_async("go")
    assert ran == ["before"]
    await agent.invoke_async(answer(*result.interrupts, response=1))
    assert (ran.count("after"), ran[-1]) == (1, "after")


async def test_a_tool_that_awaits_a_hitl_interrupt_does_not_begin_again_where_its_steps_are() -> None:
    ran: list[str] = []

    @tool
    async def ask() -> str:
        """Ask."""
        await hitl.step(ran.append, "before")
        return str(await hitl.interrupt({"type": "q"}))

    agent = Agent(client=calling("ask"), tools=[ask])
    result = await agent.invoke_async("go")
    assert [(each.name, each.reason) for each in result.interrupts] == [("q", {"type": "q"})]
    await agent.invoke_async(answer(*result.interrupts, response=1))
    assert ran == ["before"]
    assert told(agent) == ["1"]


async def test_an_async_tool_that_swallows_the_exception_fails() -> None:
    @tool
    async def careless(ctx: ToolContext) -> str:
        """Ask."""
        try:
            return str(ctx.interrupt("q"))
        except Exception:  # noqa: BLE001
            return "went on"

    agent = Agent(client=calling("careless"), tools=[careless])
    assert (await agent.invoke_async("go")).stop_reason == "end_turn"
    assert "caught the InterruptException of 'q'" in told(agent)[0]


def test_a_tool_in_a_thread_has_nothing_to_swallow() -> None:
    went_on: list[str] = []

    @tool
    def careless(ctx: ToolContext) -> str:
        """Ask."""
        try:
            said = str(ctx.interrupt("q"))
        except Exception:  # noqa: BLE001
            said = "went on"
        went_on.append(said)
        return said

    agent = Agent(client=calling("careless"), tools=[careless])
    result = agent("go")
    assert (result.stop_reason, went_on) == ("interrupt", [])
    agent(answer(*result.interrupts, response="no"))
    assert went_on == ["no"]


def test_a_callback_and_its_tool_may_both_ask() -> None:
    hooks = Hooks(lambda event: event.interrupt("may it run?"))
    agent = Agent(client=calling("delete_tool", key="X"), tools=[delete_tool], hooks=[hooks])
    first = agent("go")
    second = agent(answer(*first.interrupts))
    assert [each.name for each in (*first.interrupts, *second.interrupts)] == ["may it run?", "for_delete_tool"]
    agent(answer(*second.interrupts))
    assert told(agent) == ["deleted X"]


def test_what_the_tool_raises_is_told_to_the_model() -> None:
    @tool
    def broken(ctx: ToolContext) -> str:
        """Break."""
        raise ZeroDivisionError("broken")

    agent = Agent(client=calling("broken"), tools=[broken])
    assert agent("go").stop_reason == "end_turn"
    assert told(agent) == ['{"error": "ZeroDivisionError: broken"}']


def test_a_tool_without_a_context_is_a_plain_tool() -> None:
    @tool
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    assert add(1, 2) == 3
    assert isinstance(add, hitl.Tool)
    assert tool(add, name="plus").name == "plus"


def test_a_context_parameter_that_is_not_there_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="no parameter 'tool_context'"):

        @tool(context=True)
        def none(key: str) -> str:
            return key


def test_two_contexts_are_a_type_error() -> None:
    with pytest.raises(TypeError, match="several ToolContext"):

        @tool
        def two(one: ToolContext, other: ToolContext) -> None: ...
