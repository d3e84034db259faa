"""Sets among the arguments of a tool: shown in one order in every process, and taken in any."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field, PlainSerializer, computed_field, field_serializer

import hitl
from hitl import ReActAgent, tool
from hitl.driver.shapes import as_agent
from hitl.testing import ScriptedChatClient
from hitl.tools import schema
from hitl.tools.definition import Tool
from tests.python.support.local import LocalTurn, run_locally

ROOT = Path(__file__).parents[3]
NAMES = ["gamma", "alpha", "delta", "beta"]
ORDERED = sorted(NAMES)


class Size(Enum):
    SMALL = "small"
    LARGE = "large"


@dataclass(frozen=True)
class Pair:
    names: frozenset[str]
    at: int = 0


class Label(BaseModel, frozen=True):
    text: str
    tags: frozenset[str] = frozenset()


class Holder(BaseModel):
    labels: set[Label] = set()
    given: Annotated[set[str], Field(alias="the names")] = set()

    @computed_field  # type: ignore[prop-decorator]
    @property
    def all(self) -> set[str]:
        return {*self.given, "all"}


def _all_sets(**options: Any) -> Tool[..., Any]:
    @tool(**options)
    async def act(
        names: set[str],
        days: frozenset[date],
        sizes: set[Size],
        numbers: set[int],
        by_name: dict[str, set[str]],
        by_number: dict[int, list[set[str]]],
        nested: set[frozenset[str]],
        pairs: list[Pair],
        holder: Holder,
        mixed: set[int | str],
        order: list[str],
    ) -> str:
        return f"{sorted(names)} {order}"

    return act


SETS: dict[str, tuple[Any, Any]] = {
    "names": (NAMES, ORDERED),
    "days": (["2024-02-29", "2023-01-01", "2024-01-01"], ["2023-01-01", "2024-01-01", "2024-02-29"]),
    "sizes": (["small", "large"], ["large", "small"]),
    "numbers": ([100, 8, 1, 9], [1, 8, 9, 100]),
    "by_name": ({"z": NAMES, "a": ["y", "x"]}, {"z": ORDERED, "a": ["x", "y"]}),
    "by_number": ({"10": [NAMES], "9": [["b", "a"]]}, {"10": [ORDERED], "9": [["a", "b"]]}),
    "nested": ([["d", "c"], ["b", "a"], ["c", "a"]], [["a", "b"], ["a", "c"], ["c", "d"]]),
    "pairs": (
        [{"names": NAMES, "at": 1}, {"names": ["b", "a"]}],
        [{"names": ORDERED, "at": 1}, {"names": ["a", "b"], "at": 0}],
    ),
    "holder": (
        {"labels": [{"text": "z", "tags": NAMES}, {"text": "y", "tags": ["b", "a"]}], "the names": NAMES},
        {
            "labels": [{"text": "y", "tags": ["a", "b"]}, {"text": "z", "tags": ORDERED}],
            "the names": ORDERED,
            "all": ["all", *ORDERED],
        },
    ),
    "mixed": (["x", 1, "a", 20], ["a", "x", 1, 20]),
    "order": (NAMES, NAMES),
}
"""Of each parameter what a model gives, and what people are shown."""

ALL: dict[str, Any] = {name: given for name, (given, _) in SETS.items()}
SHOWN: dict[str, Any] = {name: shown for name, (_, shown) in SETS.items()}


def agent_with(made: Tool[..., Any], args: dict[str, Any]) -> ReActAgent:
    call = {"name": made.name, "args": args, "id": "call_1"}
    return ReActAgent(client=ScriptedChatClient([{"tool_calls": [call]}, {"content": "done"}]), tools=[made])


def test_every_set_is_shown_in_order_and_nothing_else_is() -> None:
    made = _all_sets(requires_approval=True)
    arguments = made.check(ALL)
    assert arguments.json == SHOWN
    assert made.parameters.to_json(arguments.values) == SHOWN
    assert made.parameters.find_unread(arguments.values, arguments.json) is None


def test_sets_in_a_model_in_place_of_hints_are_in_order() -> None:
    @tool(schema=Holder)
    async def act(labels: set[Label], given: set[str]) -> None: ...

    assert act.check(ALL["holder"]).json["the names"] == ORDERED
    assert act.check(ALL["holder"]).json["labels"] == SHOWN["holder"]["labels"]


def test_an_author_who_writes_a_set_by_a_serializer_has_the_order() -> None:
    def by_length(names: set[str]) -> list[str]:
        return sorted(names, key=lambda name: (len(name), name))

    class Held(BaseModel):
        names: set[str]

        @field_serializer("names")
        def write(self, names: set[str]) -> list[str]:
            return by_length(names)

    @tool
    async def act(names: Annotated[set[str], PlainSerializer(by_length)], held: Held) -> None: ...

    names = ["ccc", "b", "aa"]
    ordered = ["b", "aa", "ccc"]
    assert act.check({"names": names, "held": {"names": names}}).json == {"names": ordered, "held": {"names": ordered}}


# --- another process --------------------------------------------------------------------------------------------------

_PROGRAM = """
import json, sys
import hitl
from tests.python.agents.test_tool_sets import ALL, _all_sets, agent_with

agent = agent_with(_all_sets(requires_approval=True), ALL)
text = sys.stdin.read()
if not text:
    paused = hitl.run_sync(agent, "go")
    print(json.dumps({"state": paused.state.to_string(), "shown": paused.interrupts[0].tool_args}))
else:
    state = hitl.RunState.from_string(agent, text)
    done = hitl.run_sync(agent, state.approve(state.interrupts[0]))
    print(json.dumps({"status": done.status, "error": done.error, "told": [m.content for m in done.messages or []]}))
"""


def _in_process(seed: str, text: str = "") -> dict[str, Any]:
    path = os.pathsep.join([str(ROOT), *sys.path])
    env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM], input=text, env=env, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    said: dict[str, Any] = json.loads(done.stdout)
    return said


def test_a_turn_goes_on_in_a_process_with_other_hashes() -> None:
    first = _in_process("1")
    assert first["shown"] == SHOWN
    for seed in ("2", "3"):
        done = _in_process(seed, first["state"])
        assert (done["status"], done["error"]) == ("idle", None)
        assert f"{ORDERED} {NAMES}" in done["told"]


# --- edits ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("patch", "questions"),
    [
        ({"names": ["two", "one", "three"]}, 1),
        ({"numbers": [9, 100, 1]}, 1),
        ({"by_name": {"a": ["y", "x"], "z": ["one", "b"]}}, 1),
        ({"pairs": [{"at": 0, "names": ["z", "y", "x"]}]}, 1),
        ({"order": ["b", "a"]}, 1),
        ({"days": ["2024-02-29T00:00:00"]}, 2),
    ],
)
async def test_an_edit_may_give_a_set_in_any_order(patch: dict[str, Any], questions: int) -> None:
    agent = agent_with(_all_sets(requires_approval=True), ALL)
    result = await hitl.run(agent, "go")
    asked = 0
    while result.interrupts:
        (interrupt,) = result.interrupts
        assert result.state is not None
        shown = {**SHOWN, "holder": {**SHOWN["holder"]}} | patch
        state = result.state.approve(interrupt) if asked else result.state.edit(interrupt, shown)
        result = await hitl.run(agent, state)
        asked += 1
    assert asked == questions
    assert result.output == "done"


# --- journals of releases that wrote sets as they came ----------------------------------------------------------------


def _no_change(names: set[int]) -> None: ...


def _other(names: set[int]) -> dict[str, Any]:
    return {"names": {*names, 64}}


def _numbered(**options: Any) -> Tool[..., Any]:
    @tool(requires_approval=True, once=False, **options)
    async def act(names: set[int], note: str = "x") -> str:
        return f"ran {sorted(names)}"

    return act


Make = Callable[[], Tool[..., Any]]


@pytest.mark.parametrize(
    "make",
    [
        _numbered,
        lambda: _numbered(input_guardrails=[_no_change]),
        lambda: _numbered(input_guardrails=[_other, _no_change]),
        lambda: _numbered(approval_description=lambda ctx, args: "well?", on_approval=lambda request: None),
        lambda: tool(_numbered(), requires_approval=lambda ctx, args: True),
    ],
    ids=["plain", "a guardrail", "guardrails that change", "code beside it", "a policy"],
)
@pytest.mark.parametrize("edits", [False, True])
async def test_a_turn_that_was_parked_by_a_release_before_goes_on(make: Make, edits: bool) -> None:
    others = bool(make().input_guardrails[1:])
    given, edited = {"names": [8, 1, 100, 9]}, {"names": [24, 3, 8, 17], "note": "y"}

    def answering(done: int) -> Callable[[Any], Any]:
        left = [{"type": "approve"}] * 3
        if edits:
            left.insert(0, {"type": "edit", "args": edited})
        answers = iter(left[done:])
        return lambda request: next(answers)

    with pytest.MonkeyPatch.context() as patch:
        # As those releases wrote them. The order is the same in every process, for numbers are their own hashes.
        patch.setattr(schema, "members_in_order", lambda members, written: written)
        old = await run_locally(agent_with(make(), given), "go", answers=answering(0))
    shown = [each.request["payload"]["tool_args"]["names"] for each in old.port.interrupts]
    assert len(shown) == (2 if edits else 1)
    assert all(names != sorted(names) for names in shown)
    for cut in range(1, len(old.port.journal) + 1):
        journal = old.port.journal[:cut]
        turn = LocalTurn(answering(sum(each["entry"] == "answer" for each in journal)), journal=journal)
        message = hitl.ChatMessage.user_message(content="go")
        _, after = await turn.run(as_agent(agent_with(make(), given)).run, message, [])
        turn.turn.close()
        ran = {*edited["names"]} if edits else {*given["names"]}  # type: ignore[misc]
        assert f"ran {sorted(ran | {64}) if others else sorted(ran)}" in (after[2].content or "")
