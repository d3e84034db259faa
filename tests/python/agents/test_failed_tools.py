"""A tool that raises: the model reads the error, and whoever runs the agent finds where it was raised."""

from __future__ import annotations

import logging

import pytest

import hitl
from hitl import ReActAgent, tool
from hitl.testing import ScriptedChatClient

PRICES = {"hat": 12}


@tool
def look_up(item: str) -> str:
    """Look up a price."""
    return str(PRICES[item])


@tool
def count(items: int) -> str:
    """Count."""
    return str(items)


@tool(requires_approval=True)
def sell(item: str) -> str:
    """Sell."""
    return f"sold {item}"


def clerk(*calls: tuple[str, dict[str, object]]) -> ReActAgent:
    script = [{"tool_calls": [{"name": name, "args": args}]} for name, args in calls]
    return ReActAgent(ScriptedChatClient([*script, {"content": "done"}]), "scripted", tools=[look_up, count, sell])


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        record.getMessage()
        for record in caplog.records
        if record.name == "hitl.agents" and record.levelno == logging.WARNING
    ]


async def test_it_is_logged_once_where_it_was_raised_and_not_with_what(caplog: pytest.LogCaptureFixture) -> None:
    agent = clerk(("look_up", {"item": "secret coat"}), ("sell", {"item": "hat"}))
    first = await hitl.run(agent, "go")
    assert first.state is not None
    last = await hitl.run(agent, first.state.approve(first.interrupts[0]))  # replays the call that failed
    assert last.error is None
    [said] = [message.content or "" for message in last.messages if message.role == "tool"][:1]
    assert "secret coat" in said, "the model reads what it did wrong"
    [warning] = warnings(caplog)
    assert warning.startswith("tool look_up failed with KeyError, raised at\n")
    assert "test_failed_tools.py" in warning
    assert "return str(PRICES[item])" in warning
    assert "secret coat" not in warning, "an error's text may hold arguments"
    assert "tool_calls.py" not in warning, "the code of hitl is not the author's"


async def test_a_call_that_only_the_model_got_wrong_is_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    await hitl.run(clerk(("count", {"items": "many"}), ("cuont", {})), "go")
    assert warnings(caplog) == []
