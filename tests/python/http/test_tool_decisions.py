"""The four decisions about a tool call, from the wire to the tool and back to the model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.python.support.api import Api, Json, ok, problem, result, tool_results


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    return tmp_path / "ledger"


def asked_to_pay(api: Api, ledger: Path, cents: int) -> Json:
    return api.call_tools([{"name": "pay", "args": {"ledger": str(ledger), "cents": cents}}])


def answer(api: Api, session: Json, value: Any) -> Any:
    return api.resume(session["session_id"], session["interrupts"][-1]["interrupt_id"], value)


def written(ledger: Path) -> list[str]:
    return ledger.read_text().splitlines() if ledger.exists() else []


class TestEdit:
    @pytest.mark.parametrize("given", [{"type": "edit"}, {"approved": True}])
    def test_exactly_the_edited_arguments_run_and_the_model_is_told(
        self, puppet: Api, ledger: Path, given: Json
    ) -> None:
        session = asked_to_pay(puppet, ledger, 30)
        (interrupt,) = session["interrupts"]
        assert interrupt["allowed_decisions"] == ["approve", "edit", "reject", "respond"]
        assert interrupt["message"] == "Pay 30 cents."
        args = {"ledger": str(ledger), "cents": 20}
        ok(answer(puppet, session, {**given, "args": args}))
        (told,) = tool_results(puppet.wait(session["session_id"]))
        assert told.startswith("paid 20\n\n[A person changed the arguments of this call to {")
        assert written(ledger) == ["paid 20"]

    @pytest.mark.parametrize(
        "args", [{}, {"cents": 5}, {"ledger": "x", "cents": "five"}, {"ledger": "x", "cents": 5, "more": 1}]
    )
    def test_arguments_that_do_not_fit_the_tool_are_refused_and_it_stays_answerable(
        self, puppet: Api, ledger: Path, args: Json
    ) -> None:
        session = asked_to_pay(puppet, ledger, 30)
        refused = problem(answer(puppet, session, {"type": "edit", "args": args}), 422)
        assert "args" in refused["errors"][0]["loc"]
        assert puppet.session(session["session_id"])["interrupts"] == session["interrupts"]
        ok(answer(puppet, session, {"approved": True}))
        assert tool_results(puppet.wait(session["session_id"])) == ["paid 30"]
        assert written(ledger) == ["paid 30"]

    def test_what_a_guardrail_makes_of_an_edit_is_shown_before_it_runs(self, puppet: Api, ledger: Path) -> None:
        session = asked_to_pay(puppet, ledger, 30)
        ok(answer(puppet, session, {"type": "edit", "args": {"ledger": str(ledger), "cents": 80}}))
        again = puppet.wait(session["session_id"])
        assert again["status"] == "interrupted"
        (interrupt,) = again["interrupts"]
        assert interrupt["interrupt_id"] != session["interrupts"][0]["interrupt_id"]
        assert interrupt["payload"]["tool_args"]["cents"] == 50
        assert written(ledger) == []
        ok(answer(puppet, again, {"type": "approve"}))
        puppet.wait(session["session_id"])
        assert written(ledger) == ["paid 50"]


def test_a_response_is_the_result_and_nothing_runs(puppet: Api, ledger: Path) -> None:
    session = asked_to_pay(puppet, ledger, 30)
    ok(answer(puppet, session, {"type": "respond", "message": {"paid": "by hand"}}))
    assert tool_results(puppet.wait(session["session_id"])) == [{"paid": "by hand"}]
    assert written(ledger) == []


@pytest.mark.parametrize(
    ("cents", "told", "lines"),
    [
        (1, "paid 1", ["paid 1"]),
        (2, {"error": "User rejected pay: too little"}, []),
        (3, {"paid": 0}, []),
    ],
)
def test_what_code_decides_is_done_at_once_and_recorded(
    puppet: Api, ledger: Path, cents: int, told: Any, lines: list[str]
) -> None:
    session = asked_to_pay(puppet, ledger, cents)
    assert session["status"] == "idle"
    assert tool_results(session) == [told]
    assert written(ledger) == lines
    (record,) = ok(puppet.get("/interrupts", session_id=session["session_id"]))
    assert (record["status"], record["rule"]) == ("resolved", "on_approval")


def test_what_code_edits_runs_as_edited(puppet: Api, ledger: Path) -> None:
    session = asked_to_pay(puppet, ledger, 4)
    (told,) = tool_results(session)
    assert told.startswith("paid 5\n\n[The arguments of this call were changed to {")
    assert written(ledger) == ["paid 5"]


class TestGateOfOtherLoops:
    """`hitl.approval` and `@hitl.requires_approval` in an agent that is a plain function."""

    @pytest.fixture(params=["transfer_by_hand", "transfer_gated"])
    def asked(self, request: pytest.FixtureRequest, api: Api, ledger: Path) -> Json:
        return api.run(api.create(), request.param, {"ledger": str(ledger), "cents": 5})

    def test_it_is_an_approval_like_any_other(self, api: Api, ledger: Path, asked: Json) -> None:
        (interrupt,) = asked["interrupts"]
        assert interrupt["payload"]["tool_name"] == "transfer"
        assert interrupt["payload"]["tool_args"]["cents"] == 5
        ok(answer(api, asked, {"approved": True}))
        assert result(api.wait(asked["session_id"])) == "transferred 5"
        assert written(ledger) == ["transferred 5"]

    def test_a_no_reaches_the_caller(self, api: Api, ledger: Path, asked: Json) -> None:
        ok(answer(api, asked, {"approved": False, "reason": "no"}))
        assert result(api.wait(asked["session_id"])) == "User rejected transfer: no"
        assert written(ledger) == []

    def test_an_edit_is_what_runs(self, api: Api, ledger: Path, asked: Json) -> None:
        args = {**asked["interrupts"][0]["payload"]["tool_args"], "cents": 7}
        problem(answer(api, asked, {"type": "edit", "args": {**args, "cents": "many"}}), 422)
        ok(answer(api, asked, {"type": "edit", "args": args}))
        assert result(api.wait(asked["session_id"])) == "transferred 7"
        assert written(ledger) == ["transferred 7"]
