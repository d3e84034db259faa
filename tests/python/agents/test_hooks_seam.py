"""Hooks: code that sees a tool call before anything else does, and may cancel it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hitl import ReActAgent, interrupt, tool
from hitl.agents.seams import HookCall, HookFailed
from hitl.testing import ScriptedChatClient
from tests.python.support.local import run_locally
from tests.python.support.prefixes import Effects, run_all_prefixes

TWO_CALLS = [
    {
        "tool_calls": [
            {"name": "act", "args": {"what": "a"}, "id": "call_a"},
            {"name": "act", "args": {"what": "b"}, "id": "call_b"},
        ]
    },
    {"content": "done"},
]


def acting(effects: list[Any], *hooks: Any, **options: Any) -> ReActAgent:
    @tool(**options)
    async def act(what: str) -> str:
        effects.append(what)
        return f"did {what}"

    return ReActAgent(client=ScriptedChatClient(TWO_CALLS), tools=[act], hooks=hooks, name="doer")


async def test_a_hook_sees_each_call_and_a_text_takes_the_place_of_the_tool() -> None:
    seen: list[HookCall] = []
    effects: list[Any] = []

    async def only_a(call: HookCall) -> str | None:
        seen.append(call)
        call.args["changed"] = True  # a copy: nothing that runs
        return None if call.args["what"] == "a" else "not that one"

    result = await run_locally(acting(effects, only_a), "go")
    assert [(call.name, call.tool_call_id, call.agent) for call in seen] == [
        ("act", "call_a", "doer"),
        ("act", "call_b", "doer"),
    ]
    assert effects == ["a"]
    assert [message.content for message in result.state[2:4]] == ["did a", "not that one"]
    hooks = [(step["kind"], step["name"]) for step, _ in result.port.steps if step["kind"] == "hook"]
    assert hooks == [("hook", "act.only_a")] * 2


async def test_a_hook_comes_before_the_approval() -> None:
    def never(call: HookCall) -> str:
        return "cancelled"

    result = await run_locally(acting([], never, requires_approval=True), "go")
    assert result.requests == []


@pytest.mark.parametrize("plain", [False, True])
async def test_a_hook_may_ask_a_person_and_every_replay_goes_the_same_way(plain: bool) -> None:
    async def asks(call: HookCall) -> str | None:
        answer = await interrupt({"type": "confirm", "what": call.args["what"]})
        return None if answer == "yes" else f"refused {call.args['what']}"

    def asks_in_a_thread(call: HookCall) -> str | None:
        answer = interrupt.sync({"type": "confirm", "what": call.args["what"]})
        return None if answer == "yes" else f"refused {call.args['what']}"

    def make(effects: Effects) -> ReActAgent:
        return acting(effects, asks_in_a_thread if plain else asks)

    def person(asked: Any) -> Any:
        return "yes" if asked["payload"]["what"] == "b" else "no"

    run = await run_all_prefixes(make, person)
    assert run.effects == ["b"]
    assert run.told == ["refused a", "did b"]


async def test_the_first_hook_that_cancels_is_the_last_that_is_asked() -> None:
    asked: list[str] = []

    def first(call: HookCall) -> None:
        asked.append("first")

    def second(call: HookCall) -> str:
        asked.append("second")
        return "no"

    def third(call: HookCall) -> None:
        asked.append("third")

    await run_locally(acting([], first, second, third), "go")
    assert sorted(asked) == ["first", "first", "second", "second"]


async def test_a_hook_that_fails_lets_nothing_through() -> None:
    def raises(call: HookCall) -> None:
        raise LookupError("no such user")

    def wrong(call: HookCall) -> Any:
        return False

    for hook, text in (
        (raises, "LookupError: no such user"),
        (wrong, "TypeError: hook 'wrong' must return None or a str"),
    ):
        effects: list[Any] = []
        result = await run_locally(acting(effects, hook), "go")
        assert effects == []
        assert json.loads(result.state[2].content or "")["error"].startswith(text)


@pytest.mark.parametrize(
    ("hook", "complaint"),
    [(5, "a hook is a function"), (HookCall, "a hook is a function"), (lambda: 0, "one argument")],
)
def test_what_is_no_hook_is_refused(hook: Any, complaint: str) -> None:
    with pytest.raises(TypeError, match=complaint):
        ReActAgent(hooks=[hook])


async def asks_about_a(call: HookCall) -> None:
    if call.args["what"] == "a":
        await interrupt({"type": "confirm"})


@pytest.mark.parametrize(("once", "calls"), [(None, ["a"]), (True, ["a", "b"]), (False, [])])
async def test_a_call_that_a_hook_asked_a_person_about_is_once(once: bool | None, calls: list[str]) -> None:
    result = await run_locally(acting([], asks_about_a, once=once), "go", answers=lambda asked: "yes")
    intents = [entry["step"]["path"] for entry in result.port.journal if entry["entry"] == "intent"]
    ran = {step["path"]: result["value"] for step, result in result.port.steps if step["kind"] == "tool"}
    assert sorted(ran[path] for path in intents) == [f"did {call}" for call in calls]


async def test_guardrails_cannot_change_what_a_hook_has_shown_to_a_person() -> None:
    effects: list[Any] = []
    agent = acting(effects, asks_about_a, input_guardrails=[lambda what: {"what": what.upper()}])
    result = await run_locally(agent, "go", answers=lambda asked: "yes")
    assert effects == ["B"]
    assert json.loads(result.state[2].content or "")["error"].startswith("guardrails changed what a hook asked")


async def test_a_hook_may_end_the_turn() -> None:
    async def ends(call: HookCall) -> None:
        raise HookFailed("this agent is broken")

    effects: list[Any] = []
    with pytest.raises(HookFailed, match="this agent is broken"):
        await run_locally(acting(effects, ends), "go")
    assert effects == []
