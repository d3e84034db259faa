"""What whoever watches a tool is shown of its arguments: what is to be seen elsewhere, and nothing that code added."""

from __future__ import annotations

from typing import Any

from hitl import ChatMessage, ReActAgent, interrupt, tool
from hitl.testing import ScriptedChatClient
from hitl.tools.approvals import call_tool
from tests.python.support.local import LocalTurn


def signed(to: str) -> dict[str, str]:
    return {"token": "a password"}


@tool(input_guardrails=[signed])
async def look_up(to: str, token: str = "") -> str:
    """Look somebody up."""
    return f"{to} {len(token)}"


@tool(requires_approval=True)
async def pay(to: str, cents: int) -> str:
    """Pay somebody."""
    return f"paid {cents} to {to}"


@tool
async def ask(to: str) -> str:
    """Ask somebody."""
    return str(await interrupt({"type": "question", "to": to}))


def agent(name: str, args: dict[str, Any]) -> ReActAgent:
    client = ScriptedChatClient([{"tool_calls": [{"name": name, "args": args}]}, {"content": "done"}])
    return ReActAgent(client=client, model_name="scripted", tools=[look_up, pay, ask])


async def served(turn: LocalTurn, name: str, args: dict[str, Any]) -> None:
    reply, _ = await turn.run(agent(name, args).run_turn, ChatMessage.user_message("go"), [])
    assert reply.content == "done"


def intents(turn: LocalTurn) -> list[Any]:
    return [entry.get("arguments") for entry in turn.port.journal if entry["entry"] == "intent"]


async def test_what_a_guardrail_made_of_a_models_arguments_is_nobodys_to_see() -> None:
    turn = LocalTurn()
    await served(turn, "look_up", {"to": "ada"})
    assert [(name, shown) for _, name, shown in turn.port.starts] == [("look_up", {"to": "ada"})]
    assert intents(turn) == []


async def test_what_was_approved_is_shown_by_the_record_that_it_begins() -> None:
    turn = LocalTurn(lambda _: {"type": "edit", "args": {"to": "ada", "cents": 5}})
    await served(turn, "pay", {"to": "ada", "cents": 100})
    assert (turn.port.starts, intents(turn)) == ([], [{"to": "ada", "cents": 5}])


async def test_the_arguments_of_a_call_that_code_makes_are_not_shown() -> None:
    turn = LocalTurn()
    await turn.run(call_tool, look_up, {"to": "ada"})
    assert [(name, shown) for _, name, shown in turn.port.starts] == [("look_up", None)]


async def test_a_tool_that_asked_begins_once_however_often_its_turn_is_taken_up() -> None:
    first = LocalTurn(lambda _: {"later": True})
    await served(first, "ask", {"to": "ada"})
    assert len(first.port.starts) == 1
    # Cut off before the tool was done: its body runs again, up to where it has asked.
    done = next(i for i, entry in enumerate(first.port.journal) if entry.get("step", {}).get("kind") == "tool")
    assert any(entry["entry"] == "ask" for entry in first.port.journal[:done])
    again = LocalTurn(journal=first.port.journal[:done])
    await served(again, "ask", {"to": "ada"})
    assert again.port.starts == []
