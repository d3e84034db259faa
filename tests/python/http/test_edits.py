"""Edited arguments: both forms, checked against the tool before anything is stored, bound to what runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.python.support.api import Api, Json, ok, problem, tool_results


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    return tmp_path / "ledger"


@pytest.fixture
def asked(puppet: Api, ledger: Path) -> Json:
    """A session that asks whether 100 cents may be charged."""
    return puppet.call_tools([{"name": "charge", "args": {"ledger": str(ledger), "cents": 100}}])


def answer(api: Api, session: Json, value: Any) -> Any:
    return api.resume(session["session_id"], session["interrupts"][0]["interrupt_id"], value)


def forms(args: Any) -> list[Json]:
    return [
        {"approved": True, "args": args},
        {"type": "edit", "args": args},
        {"type": "edit", "name": "charge", "args": args},
    ]


@pytest.mark.parametrize("form", range(3))
def test_the_edited_arguments_run_once_and_the_model_is_told(puppet: Api, asked: Json, ledger: Path, form: int) -> None:
    args = {"ledger": str(ledger), "cents": 50}
    ok(answer(puppet, asked, forms(args)[form]))
    (told,) = tool_results(puppet.wait(asked["session_id"]))
    assert told.startswith("charged 50\n\n[A person changed the arguments of this call to {")
    assert ledger.read_text().splitlines() == ["charged 50"] or len(ledger.read_text().splitlines()) == 1


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"cents": "50"}, ["args", "cents"]),
        ({"cents": None}, ["args", "cents"]),
        ({"cents": ...}, ["args"]),
        ({"tip": 5}, ["args"]),
    ],
)
@pytest.mark.parametrize("form", range(3))
def test_arguments_that_do_not_fit_the_tool_change_nothing(
    puppet: Api, asked: Json, ledger: Path, changes: Json, place: list[str], form: int
) -> None:
    args = {"ledger": str(ledger), "cents": 50, **changes}
    args = {name: value for name, value in args.items() if value is not ...}
    refused = problem(answer(puppet, asked, forms(args)[form]), 422)
    assert refused["errors"][0]["loc"] == ["body", "value", *place]
    assert puppet.session(asked["session_id"])["interrupts"] == asked["interrupts"]
    assert not ledger.exists()
    ok(answer(puppet, asked, {"approved": True}))
    assert tool_results(puppet.wait(asked["session_id"])) == ["charged 100"]


@pytest.mark.parametrize(
    "value",
    [
        {"type": "edit"},
        {"type": "edit", "args": None},
        {"type": "edit", "args": []},
        {"type": "edit", "args": {}, "always": True},
        {"type": "edit", "name": "delete_file", "args": {}},
        {"type": "edit", "edited_action": {"name": "charge", "args": {}}},
        {"approved": False, "args": {}},
        {"args": {}},
        {"approved": True, "args": None},
        {"approved": True, "args": {}, "always": True},
    ],
)
def test_what_is_no_edit_is_no_approval_either(puppet: Api, asked: Json, ledger: Path, value: Json) -> None:
    """Elsewhere an edit to another tool escaped that tool's policy."""
    problem(answer(puppet, asked, value), 422)
    assert puppet.session(asked["session_id"])["interrupts"] == asked["interrupts"]
    assert not ledger.exists()


def test_the_schema_of_an_answer_shows_what_the_tool_takes(asked: Json) -> None:
    schema = asked["interrupts"][0]["response_schema"]
    assert schema["$defs"]["args"]["properties"].keys() == {"ledger", "cents"}
    assert "args_schema" not in asked["interrupts"][0]


def test_the_same_edit_again_is_a_replay_in_either_form(puppet: Api, asked: Json, ledger: Path) -> None:
    first, second, _ = forms({"ledger": str(ledger), "cents": 50})
    ok(answer(puppet, asked, first))
    puppet.wait(asked["session_id"])
    assert ok(answer(puppet, asked, second))["replayed"] is True
    other = forms({"ledger": str(ledger), "cents": 51})[0]
    assert problem(answer(puppet, asked, other), 409)["code"] == "already_resolved"
    assert len(ledger.read_text().splitlines()) == 1
