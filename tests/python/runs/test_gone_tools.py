"""A tool that is taken away, or renamed, while a call of it waits or is over: what the run says."""

from __future__ import annotations

from typing import Any

import pytest

import hitl
from hitl import ReActAgent, ReplayMismatch, RunResult, RunState, tool
from hitl.testing import ScriptedChatClient


@tool(requires_approval=True)
async def delete_file(path: str) -> str:
    """Delete a file."""
    return f"deleted {path}"


@tool
async def look(path: str) -> str:
    """Look at a file."""
    return f"saw {path}"


def call(name: str) -> dict[str, Any]:
    return {"name": name, "args": {"path": "/a"}}


def agent(*tools: Any, calls: list[dict[str, Any]], name: str = "clerk") -> ReActAgent:
    client = ScriptedChatClient([{"tool_calls": calls}, {"content": "done"}])
    return ReActAgent(client=client, model_name="scripted", tools=tools, name=name)


async def approved(paused: RunResult, then: ReActAgent) -> RunResult:
    """Everything that waits is approved, and the run goes on by other code."""
    assert paused.state is not None
    state = RunState.from_string(then, paused.state.to_string())
    for asked in paused.interrupts:
        state.approve(asked)
    return await hitl.run(then, state)


@pytest.mark.parametrize("other", [[look], [look, tool(delete_file, name="remove_file")]], ids=["removed", "renamed"])
async def test_a_waiting_call_of_it_names_the_tool_and_what_to_do(other: list[Any]) -> None:
    calls = [call("look"), call("delete_file")]
    paused = await hitl.run(agent(look, delete_file, calls=calls), "go")
    failed = await approved(paused, agent(*other, calls=calls))
    assert (failed.status, failed.error_code) == ("error", "replay_mismatch")
    assert isinstance(failed.exception, ReplayMismatch)
    said = str(failed.exception)
    assert said.startswith("the tool 'delete_file' is gone: ")
    assert "'clerk' has no tool of that name any more" in said
    assert 'recorded:  interrupt "tool_approval" (0.2#1)' in said
    assert "name='delete_file'" in said
    assert failed.state is not None
    done = await hitl.run(agent(look, delete_file, calls=calls), failed.state)
    assert (done.status, done.messages[-2].content) == ("idle", "deleted /a")


async def test_a_finished_call_of_it_does_so_too() -> None:
    calls = [call("look"), call("delete_file")]
    paused = await hitl.run(agent(look, delete_file, calls=calls), "go")
    failed = await approved(paused, agent(delete_file, calls=calls))
    assert str(failed.exception).startswith("the tool 'look' is gone: ")


async def test_a_nested_agent_is_named_as_the_one_that_lacks_it() -> None:
    def outer(*tools: Any) -> ReActAgent:
        inner = agent(*tools, calls=[call("delete_file")], name="archivist")
        return agent(inner.as_tool(), calls=[{"name": "archivist", "args": {"input": "go"}}])

    failed = await approved(await hitl.run(outer(delete_file), "go"), outer(look))
    assert "'archivist' has no tool of that name any more" in str(failed.exception)


async def test_a_call_of_a_tool_that_never_was_stays_the_model_s_mistake() -> None:
    calls = [call("delete_fiel"), call("delete_file")]
    paused = await hitl.run(agent(delete_file, calls=calls), "go")
    done = await approved(paused, agent(delete_file, calls=calls))
    assert done.status == "idle"
    assert "unknown tool 'delete_fiel'" in (done.messages[2].content or "")
