"""The context of a run: what tools see, what travels with the state, and what cannot."""

from __future__ import annotations

import sqlite3
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import hitl
from hitl import ReActAgent, RunContext, RunState, tool
from hitl.testing import ScriptedChatClient


@dataclass
class Customer:
    name: str
    tags: list[str] = field(default_factory=list)


def agent(seen: list[Any]) -> ReActAgent:
    @tool(requires_approval=True)
    async def pay(amount: int, ctx: RunContext) -> str:
        """Pay."""
        seen.append(ctx.context)
        return "paid"

    client = ScriptedChatClient([{"tool_calls": [{"name": "pay", "args": {"amount": 3}}]}, {"content": "done"}])
    return ReActAgent(client=client, model_name="scripted", tools=[pay])


async def decided(paying: ReActAgent, context: Any) -> str:
    paused = await hitl.run(paying, "pay", context=context)
    assert paused.state is not None
    return paused.state.approve(paused.interrupts[0]).to_string()


async def test_in_one_process_it_is_the_object_itself() -> None:
    seen: list[Any] = []
    context = Customer("ann")
    paused = await hitl.run(agent(seen), "pay", context=context)
    assert paused.state is not None
    await hitl.run(agent(seen), paused.state.approve(paused.interrupts[0]))
    assert seen[0] is context


@pytest.mark.parametrize("context", [{"user": 3}, Customer("ann", ["vip"]), [1, 2], "text"])
async def test_it_travels_with_the_state(context: Any) -> None:
    seen: list[Any] = []
    paying = agent(seen)
    state = RunState.from_string(paying, await decided(paying, context))
    assert state.context == context
    assert (await hitl.run(paying, state)).output == "done"
    assert seen == [context]


@pytest.mark.parametrize(
    ("strategy", "given", "merged"),
    [
        ("merge", {"user": 4, "extra": 1}, {"user": 4, "kept": True, "extra": 1}),
        ("merge", None, {"user": 3, "kept": True}),
        ("merge", Customer("bob"), Customer("bob")),
        ("replace", {"extra": 1}, {"extra": 1}),
        ("replace", None, None),
    ],
)
async def test_a_given_one_is_merged_or_replaces_it(strategy: Any, given: Any, merged: Any) -> None:
    seen: list[Any] = []
    paying = agent(seen)
    text = await decided(paying, {"user": 3, "kept": True})
    state = RunState.from_string(paying, text, context=given, context_strategy=strategy)
    # What was given is the state's from here on.
    state = RunState.from_string(paying, state.to_string())
    await hitl.run(paying, state)
    assert seen == [merged]


async def test_an_unknown_strategy_is_refused() -> None:
    paying = agent([])
    with pytest.raises(ValueError, match="'merge' or 'replace'"):
        RunState.from_string(paying, await decided(paying, None), context_strategy="mix")  # type: ignore[arg-type]


async def test_one_that_is_no_json_is_an_error_at_the_pause_that_names_the_field(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "other.db")
    async with hitl.Store(tmp_path / "runs.db") as store:
        with pytest.raises(TypeError, match=r"context\.db is of type sqlite3"):
            await hitl.run(agent([]), "pay", context={"db": connection}, store=store, session="alice")
        assert await RunState.from_store(agent([]), store, "alice") is None
    connection.close()


async def test_without_a_pause_any_object_will_do() -> None:
    async def answers(message: hitl.ChatMessage, state: list[Any]) -> tuple[hitl.ChatMessage, list[Any]]:
        return hitl.ChatMessage.assistant_message(content="hi"), state

    assert (await hitl.run(answers, "hello", context=object())).output == "hi"


async def test_a_store_keeps_it_too(tmp_path: Path) -> None:
    seen: list[Any] = []
    async with hitl.Store(tmp_path / "runs.db") as store:
        await hitl.run(agent(seen), "pay", context={"user": 3}, store=store, session="alice")
    async with hitl.Store(tmp_path / "runs.db") as store:
        state = await RunState.from_store(agent(seen), store, "alice", context={"extra": 1})
        assert state is not None
        await hitl.run(agent(seen), state.approve(state.interrupts[0]))
    assert seen == [{"user": 3, "extra": 1}]


async def test_a_state_of_anybodys_imports_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "drop_all.py").write_text("raise AssertionError('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    paying = agent([])
    forged = (await decided(paying, Customer("ann"))).replace(f"{__name__}:Customer", "drop_all:Customer")
    with pytest.raises(ValueError, match="the module drop_all is not imported here; import it where"):
        RunState.from_string(paying, forged)
    assert "drop_all" not in sys.modules
