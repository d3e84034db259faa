"""Parameters whose default is made anew for each call: what was made is recorded, and the same again in a replay."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID, uuid4

import pytest
from pydantic import BaseModel, Field

from hitl import ChatMessage, ReActAgent, tool
from hitl.testing import ScriptedChatClient
from hitl.tools.definition import Tool
from tests.python.support.local import PENDING, Journal, LocalTurn, run_locally
from tests.python.support.prefixes import Effects

APPROVE = {"type": "approve"}


NEW_ID: Any = Field(default_factory=uuid4)
NO_TAGS: Any = Field(default_factory=list)
SEVEN: Any = Field(default_factory=lambda: UUID(int=7))


class Payment(BaseModel):
    cents: int
    id: UUID = Field(default_factory=uuid4, alias="paymentId")


def by_hints(effects: Effects, **options: Any) -> Tool[..., Any]:
    @tool(**options)
    async def pay(cents: int, id: UUID = NEW_ID, tags: list[str] = NO_TAGS) -> str:
        effects.append(id)
        return f"paid {cents} as {id}"

    return pay


def by_model(effects: Effects, **options: Any) -> Tool[..., Any]:
    @tool(schema=Payment, **options)
    async def pay(cents: int, id: UUID) -> str:
        effects.append(id)
        return f"paid {cents} as {id}"

    return pay


async def pays(made: Any, answers: Any = None, *, times: int = 1, **options: Any) -> tuple[LocalTurn, Effects]:
    """The model calls `pay`, without an id; once more from every prefix of the journal that has the ids."""

    given: dict[str, Any] = {}

    def answer(asked: Any) -> Any:
        if asked["type"] == "unknown_outcome":
            return {"outcome": "not_done"}
        return answers(asked) if "payload" in asked else PENDING  # asked before: it is given below

    async def run(journal: Journal | None = None) -> tuple[Any, LocalTurn, Effects]:
        effects: Effects = []
        calls = [{"name": "pay", "args": {"cents": 5 + n}, "id": f"call_{n}"} for n in range(times)]
        client = ScriptedChatClient([{"tool_calls": calls}, {"content": "done"}])
        agent = ReActAgent(client=client, tools=[made(effects, **options)])
        local = LocalTurn(answer, journal=journal)
        for asked in local.port.interrupts:
            asked.give(given[asked.step["path"]])
        _, state = await local.run(agent.run_turn, ChatMessage.user_message(content="go"), [])
        return state, local, effects

    state, first, effects = await run()
    journal = first.port.journal
    given.update({asked.step["path"]: answer(asked.request) for asked in first.port.interrupts})
    recorded = [at for at, entry in enumerate(journal) if entry.get("step", {}).get("name") == "pay.defaults"]
    for cut in range(1, len(journal)):
        again, _, repeated = await run(json.loads(json.dumps(journal[:cut])))
        if cut > max(recorded, default=0):
            assert again == state, f"cut at {cut}"
            assert set(repeated) <= set(effects), f"cut at {cut}"
    return first, effects


@pytest.mark.parametrize("made", [by_hints, by_model])
@pytest.mark.parametrize(
    "options", [{}, {"requires_approval": True}, {"input_guardrails": [lambda cents: {"cents": 1}]}]
)
async def test_what_was_made_for_a_parameter_that_the_model_left_out_is_the_same_in_a_replay(
    made: Any, options: dict[str, Any]
) -> None:
    run, effects = await pays(made, lambda asked: APPROVE, times=2, **options)
    assert len(set(effects)) == 2
    assert len([step for step, _ in run.port.steps if step["name"] == "pay.defaults"]) == 2
    for asked in run.port.interrupts:
        shown = asked.request["payload"]["tool_args"]
        assert shown.get("id", shown.get("paymentId")) in {str(each) for each in effects}


async def test_what_is_made_for_an_edit_that_leaves_it_out_is_the_same_in_a_replay() -> None:
    edited = {"type": "edit", "args": {"cents": 7}}
    run, effects = await pays(
        by_hints,
        lambda asked: edited if asked["payload"]["tool_args"]["cents"] == 5 else APPROVE,
        requires_approval=True,
    )
    first, second = (asked.request["payload"]["tool_args"] for asked in run.port.interrupts)
    assert first["id"] != second["id"]
    assert [str(each) for each in effects] == [second["id"]]


async def test_a_call_that_names_all_of_them_and_a_default_that_is_always_the_same_are_not_recorded() -> None:
    effects: Effects = []
    made = by_hints(effects)
    script = [{"tool_calls": [{"name": "pay", "args": {"cents": 5, "id": str(UUID(int=1))}}]}, {"content": "done"}]
    result = await run_locally(ReActAgent(client=ScriptedChatClient(script), tools=[made]), "go")
    assert [step["name"] for step, _ in result.port.steps if step["kind"] == "clock"] == []
    assert effects == [UUID(int=1)]


async def test_a_journal_that_has_no_record_of_it_goes_on_as_it_did() -> None:
    """Of an older release: the call's first step is where the record would be."""
    effects: Effects = []

    @tool(input_guardrails=[lambda cents: None])
    async def pay(cents: int, id: UUID = SEVEN) -> str:
        effects.append(id)
        return f"paid {cents}"

    def agent() -> ReActAgent:
        script = [{"tool_calls": [{"name": "pay", "args": {"cents": 5}, "id": "c"}]}, {"content": "done"}]
        return ReActAgent(client=ScriptedChatClient(script), tools=[pay])

    first = await run_locally(agent(), "go")
    journal = json.loads(json.dumps(first.port.journal))
    (recorded,) = [entry for entry in journal if entry["entry"] == "step" and entry["step"]["name"] == "pay.defaults"]
    journal.remove(recorded)
    prefix, number = recorded["step"]["path"].split("#")
    for entry in journal:
        path = entry.get("step", {}).get("path", "")
        if path.startswith(f"{prefix}#") and int(path.rpartition("#")[2]) > int(number):
            entry["step"]["path"] = f"{prefix}#{int(path.rpartition('#')[2]) - 1}"
    again = LocalTurn(journal=journal)
    _, state = await again.run(agent().run_turn, ChatMessage.user_message(content="go"), [])
    assert state == first.state
    assert len(again.port.journal) == len(journal)
