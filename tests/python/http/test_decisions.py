"""Answers to tool approvals and to the model's questions: strict, closed, and bound to what was shown."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.python.support.api import Api, Json, ok, problem, tool_results

REJECTED = "User rejected delete_file"


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A file that the agent wants to delete."""
    path = tmp_path / "old.log"
    path.write_text("old")
    return path


@pytest.fixture
def asked(puppet: Api, victim: Path) -> Json:
    """A session that asks whether the file may be deleted."""
    return puppet.call_tools([{"name": "delete_file", "args": {"path": str(victim)}, "id": "call_7"}])


def answer(api: Api, session: Json, value: Any) -> Any:
    return api.resume(session["session_id"], session["interrupts"][0]["interrupt_id"], value)


class TestApproval:
    def test_shows_exactly_what_would_run(self, asked: Json, victim: Path) -> None:
        (interrupt,) = asked["interrupts"]
        assert interrupt["type"] == "tool_approval"
        assert (
            interrupt["payload"].items()
            >= {
                "type": "tool_approval",
                "tool_name": "delete_file",
                "tool_args": {"path": str(victim)},
            }.items()
        )
        assert interrupt["allowed_decisions"] == ["approve", "edit", "reject"]
        assert interrupt["tool_call_id"] == "call_7"
        assert interrupt["agent"] == "puppet"
        assert re.fullmatch("sha256:[0-9a-f]{64}", interrupt["args_digest"])
        assert victim.exists()

    @pytest.mark.parametrize("value", [{"approved": True}, {"type": "approve"}])
    def test_approved_it_runs_once(self, puppet: Api, asked: Json, victim: Path, value: Any) -> None:
        ok(answer(puppet, asked, value))
        assert tool_results(puppet.wait(asked["session_id"])) == [f"deleted {victim}"]
        assert not victim.exists()

    @pytest.mark.parametrize(
        ("value", "text"),
        [
            ({"approved": False}, REJECTED),
            ({}, REJECTED),
            ({"approved": False, "reason": "keep it"}, f"{REJECTED}: keep it"),
            ({"type": "reject"}, REJECTED),
            ({"type": "reject", "reason": "keep it"}, f"{REJECTED}: keep it"),
        ],
    )
    def test_rejected_the_model_hears_why(self, puppet: Api, asked: Json, victim: Path, value: Any, text: str) -> None:
        ok(answer(puppet, asked, value))
        assert tool_results(puppet.wait(asked["session_id"])) == [{"error": text}]
        assert victim.exists()

    @pytest.mark.parametrize(
        "value",
        [
            {"approved": "true"},
            {"approved": "false"},
            {"approved": 1},
            {"approved": 0},
            {"approved": None},
            {"approved": []},
            {"Approved": True},
            {"approved": True, "comment": "unknown member"},
            {"approved": True, "reason": 7},
            {"approved": False, "reason": ["no"]},
            None,
            True,
            "yes",
            "approve",
            1,
            [],
            [True],
            {"type": "approve", "approved": False},
            {"type": "reject", "approved": True},
            {"type": "unheard of"},
            {"type": None},
            {"reason": 7},
        ],
    )
    def test_anything_else_changes_nothing_and_stays_answerable(
        self, puppet: Api, asked: Json, victim: Path, value: Any
    ) -> None:
        problem(answer(puppet, asked, value), 422)
        session = puppet.session(asked["session_id"])
        assert session["status"] == "interrupted"
        assert session["interrupts"] == asked["interrupts"]
        assert victim.exists()
        ok(answer(puppet, asked, {"approved": True}))
        assert tool_results(puppet.wait(asked["session_id"])) == [f"deleted {victim}"]

    def test_a_decision_that_is_not_allowed_is_refused_not_ignored(
        self, puppet: Api, asked: Json, victim: Path
    ) -> None:
        problem(answer(puppet, asked, {"type": "respond", "message": "done by hand"}), 422)
        assert puppet.session(asked["session_id"])["status"] == "interrupted"
        assert victim.exists()

    def test_guardrails_run_before_the_person_sees_the_arguments(self, puppet: Api, tmp_path: Path) -> None:
        shown, original = tmp_path / "rewritten" / "a", tmp_path / "a"
        shown.parent.mkdir()
        for path in (shown, original):
            path.write_text("x")
        session = puppet.call_tools([{"name": "delete_rewritten", "args": {"path": str(original)}}])
        assert session["interrupts"][0]["payload"]["tool_args"] == {"path": str(shown)}
        ok(answer(puppet, session, {"approved": True}))
        assert puppet.wait(session["session_id"])["status"] == "idle"
        assert (shown.exists(), original.exists()) == (False, True)

    def test_two_calls_of_equal_arguments_are_two_decisions(self, puppet: Api, tmp_path: Path) -> None:
        ledger = tmp_path / "ledger"
        call = {"name": "charge", "args": {"ledger": str(ledger), "cents": 1}}
        session = puppet.call_tools([call, call], questions=2)
        assert len(session["interrupts"]) == 2
        ok(answer(puppet, session, {"approved": True}))
        second = session["interrupts"][1]["interrupt_id"]
        assert puppet.interrupt(second)["status"] == "pending"
        ok(puppet.resume(session["session_id"], second, {"approved": False}))
        assert tool_results(puppet.wait(session["session_id"])) == ["charged 1", {"error": "User rejected charge"}]
        assert ledger.read_text() == "charged 1\n"

    def test_a_sibling_that_needs_no_approval_runs_once_without_waiting(self, puppet: Api, tmp_path: Path) -> None:
        ledger = tmp_path / "ledger"
        session = puppet.call_tools(
            [
                {"name": "charge", "args": {"ledger": str(ledger), "cents": 1}},
                {"name": "note", "args": {"ledger": str(ledger), "text": "noted"}},
            ]
        )
        ok(answer(puppet, session, {"approved": True}))
        assert puppet.wait(session["session_id"])["status"] == "idle"
        assert sorted(ledger.read_text().splitlines()) == ["charged 1", "noted"]


class TestMistakesOfTheModel:
    """They become tool errors that the model sees; the turn goes on and nothing runs."""

    @pytest.mark.parametrize(
        "call",
        [
            {"name": "no_such_tool", "args": {}},
            {"name": "delete_file", "args": {}},
            {"name": "delete_file", "args": {"path": 7}},
            {"name": "delete_file", "args": {"path": "x", "force": True}},
            {"name": "delete_file", "args": ["x"]},
            {"name": "ask_user_question", "args": {"questions": []}},
        ],
    )
    def test_a_call_that_cannot_be_made(self, puppet: Api, call: Json) -> None:
        session = puppet.call_tools([call])
        (outcome,) = tool_results(session)
        assert isinstance(outcome["error"], str)

    def test_arguments_too_large_to_show(self, puppet: Api) -> None:
        (outcome,) = tool_results(puppet.call_tools([{"name": "delete_file", "args": {"path": "x" * 20_000}}]))
        assert "16384" in outcome["error"].replace(",", "")
        assert re.search(r"20[,]?\d\d\d", outcome["error"])


STRATEGY = {
    "question": "How would you like to organize the files?",
    "header": "Strategy",
    "options": [
        {"label": "By date", "description": "Group files by year and month"},
        {"label": "By type", "description": "Group files by extension"},
    ],
}
FOLDERS = {
    "question": "Which folders?",
    "header": "Folders",
    "multiSelect": True,
    "options": [{"label": label, "description": "A folder"} for label in ("Downloads", "Desktop", "Documents")],
}


class TestQuestions:
    @pytest.fixture
    def asked(self, puppet: Api) -> Json:
        return puppet.call_tools([{"name": "ask_user_question", "args": {"questions": [STRATEGY, FOLDERS]}}])

    def test_show_what_the_model_wants_to_know(self, asked: Json) -> None:
        (interrupt,) = asked["interrupts"]
        assert interrupt["type"] == "user_input"
        assert interrupt["payload"]["type"] == "user_input"
        first, second = interrupt["payload"]["questions"]
        assert first["multiSelect"] is False
        assert {name: first[name] for name in ("question", "header")} == {
            name: STRATEGY[name] for name in ("question", "header")
        }
        assert [option["label"] for option in first["options"]] == ["By date", "By type"]
        assert second["multiSelect"] is True

    @pytest.mark.parametrize(
        ("strategy", "folders"),
        [
            ("By date", ["Downloads", "Desktop"]),
            ("by colour, please", ["Downloads"]),
            ("By type", ["something else"]),
        ],
    )
    def test_the_answers_are_what_the_model_gets(self, puppet: Api, asked: Json, strategy: Any, folders: Any) -> None:
        answers = {STRATEGY["question"]: strategy, FOLDERS["question"]: folders}
        ok(answer(puppet, asked, {"answers": answers}))
        assert tool_results(puppet.wait(asked["session_id"])) == [answers]

    @pytest.mark.parametrize(
        "value",
        [
            None,
            {},
            "By date",
            {"answers": {}},
            {"answers": {STRATEGY["question"]: "By date"}},
            {"answers": {STRATEGY["question"]: ["By date"], FOLDERS["question"]: ["Desktop"]}},
            {"answers": {STRATEGY["question"]: 1, FOLDERS["question"]: ["Desktop"]}},
            {"answers": {STRATEGY["question"]: None, FOLDERS["question"]: ["Desktop"]}},
            {"answers": {STRATEGY["question"]: "By date", FOLDERS["question"]: [1]}},
            {"answers": {STRATEGY["question"]: "By date", FOLDERS["question"]: ["Desktop"], "Another?": "x"}},
            {"answers": {"Strategy": "By date", FOLDERS["question"]: ["Desktop"]}},
            {"answers": ["By date", ["Desktop"]]},
        ],
    )
    def test_anything_else_changes_nothing_and_stays_answerable(self, puppet: Api, asked: Json, value: Any) -> None:
        problem(answer(puppet, asked, value), 422)
        session = puppet.session(asked["session_id"])
        assert (session["status"], session["interrupts"]) == ("interrupted", asked["interrupts"])
        ok(answer(puppet, asked, {"answers": {STRATEGY["question"]: "x", FOLDERS["question"]: ["y"]}}))
