"""Callbacks and tools that ask, replayed from every prefix of their journal."""

from __future__ import annotations

from typing import Any

import pytest

import hitl
from hitl.hooks import Agent, BeforeToolCallEvent, ToolContext, tool
from hitl.testing import ScriptedChatClient
from tests.python.hooks.asking import Hooks
from tests.python.support.prefixes import Effects, run_all_prefixes


def script() -> ScriptedChatClient:
    first, *others = ({"name": "act", "args": {"what": what}, "id": f"call_{what}"} for what in "abc")
    return ScriptedChatClient([{"tool_calls": [first, *others]}, {"tool_calls": [first]}, {"content": "."}])


def ask_twice(event: BeforeToolCallEvent) -> None:
    assert event.tool_use is not None
    if event.tool_use["input"]["what"] != "b" and event.interrupt("first") and not event.interrupt("second"):
        event.cancel_tool = "no"


def ask_once(event: BeforeToolCallEvent) -> None:
    if not event.interrupt("other", reason=event.tool_use):
        event.cancel_tool = "other no"


@pytest.mark.parametrize("is_async", [False, True])
async def test_events_with_several_questions(is_async: bool) -> None:
    async def ask_twice_async(event: BeforeToolCallEvent) -> None:
        ask_twice(event)

    ids: dict[str, set[Any]] = {}

    def person(request: Any) -> Any:
        shown = request["payload"]
        ids.setdefault(shown["id"], set()).add((shown["name"], shown["tool_args"]["what"]))
        return not (shown["name"] == "second" and shown["tool_args"]["what"] == "c")

    def make(effects: Effects) -> Agent:
        def act(what: str) -> str:
            """Act."""
            effects.append(what)
            return f"did {what}"

        hooks = Hooks(ask_twice_async if is_async else ask_twice, ask_once)
        return Agent(client=script(), tools=[act], hooks=[hooks])

    run = await run_all_prefixes(make, person)
    assert sorted(run.effects) == ["a", "a", "b"]
    assert run.told == ["did a", "did b", "no", "did a"]
    assert len(run.requests) == 2 * 3 + 1 + 3, "each question once, whatever is replayed"
    assert len({request["payload"]["id"] for request in run.requests}) == 10
    assert set(ids) == {request["payload"]["id"] for request in run.requests}, "a replay asks under the same id"


@pytest.mark.parametrize("is_async", [False, True])
async def test_tools_that_ask_in_the_middle(is_async: bool) -> None:
    def make(effects: Effects) -> Agent:
        @tool(name="act")
        def act(what: str, ctx: ToolContext) -> str:
            """Act."""
            hitl.step.sync(effects.append, f"draft {what}")
            first, second = ctx.interrupt("first"), ctx.interrupt("second")
            hitl.step.sync(effects.append, f"send {what}")
            return f"{first} {second} {what}"

        @tool(name="act")
        async def act_async(what: str, ctx: ToolContext) -> str:
            """Act."""
            first, second = ctx.interrupt("first"), ctx.interrupt("second")
            await hitl.step(effects.append, f"send {what}")
            return f"{first} {second} {what}"

        return Agent(client=script(), tools=[act_async if is_async else act])

    run = await run_all_prefixes(make, lambda request: request["payload"]["name"])
    assert run.told == [f"first second {what}" for what in "abca"]
    sent = [effect for effect in run.effects if effect.startswith("send")]
    assert sorted(sent) == ["send a", "send a", "send b", "send c"]
    assert len(run.effects) == (4 if is_async else 8)
