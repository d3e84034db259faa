"""Failures that were reproduced in other systems, each turned into a test of this one."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.python.support.api import Api, ok, problem, result, tool_results

if TYPE_CHECKING:
    from tests.python.http.conftest import Serve


def test_a_thousand_questions_do_not_stop_a_small_server(serve: Serve) -> None:
    """There, of 1,000 sessions told to pause 2 were interrupted and 998 `running` for ever."""
    api = serve(workers=2, isolation="task").api
    with ThreadPoolExecutor(8) as threads:
        asked = list(threads.map(lambda _: api.ask({"type": "question"}), range(200)))
        assert len(ok(api.get("/sessions", status="interrupted", limit=1000))) == 200
        assert result(api.run(api.create(), "echo", "alive")) == "alive"
        assert {answer.status_code for answer in threads.map(lambda pair: api.resume(pair[0], pair[1], 1), asked)} == {
            200
        }
        assert {result(api.wait(session_id)) for session_id, _ in asked} == {1}


def test_a_side_effect_before_three_questions_happens_once(either_api: Api, tmp_path: Path) -> None:
    """There it ran four times: every resume ran the code again from its top."""
    ledger = tmp_path / "ledger"
    payloads = [{"type": "question", "n": number} for number in range(3)]
    session_id, interrupts = either_api.asked("effect_then_ask", {"ledger": str(ledger), "payloads": payloads})
    for number in range(3):
        ok(either_api.resume(session_id, interrupts[0]["interrupt_id"], number))
        interrupts = either_api.wait(session_id)["interrupts"]
    assert result(either_api.session(session_id)) == [0, 1, 2]
    assert ledger.read_text() == "effect\n"


def test_an_effect_in_a_tool_before_three_questions_happens_once(puppet: Api, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    session = puppet.call_tools([{"name": "ask_three_times", "args": {"ledger": str(ledger)}}])
    for number in range(3):
        ok(puppet.resume(session["session_id"], session["interrupts"][0]["interrupt_id"], number))
        session = puppet.wait(session["session_id"])
    assert tool_results(session) == [[0, 1, 2]]
    assert ledger.read_text() == "started\n"


def test_an_answer_goes_to_its_own_question_whatever_the_order(api: Api) -> None:
    """There interrupts were matched by position, and an answer went to another question."""
    session_id, interrupts = api.asked("ask_all", [{"type": "question", "n": number} for number in range(6)])
    for entry in (interrupts[3], interrupts[0], interrupts[5], interrupts[4], interrupts[2], interrupts[1]):
        ok(api.resume(session_id, entry["interrupt_id"], entry["payload"]["n"]))
    assert result(api.wait(session_id)) == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    "malformed",
    [{"approved": "false"}, {"decisions": []}, [], "approve", None, {"type": "edit", "edited_action": None}],
)
def test_a_malformed_decision_does_not_poison_the_session(puppet: Api, tmp_path: Path, malformed: object) -> None:
    """There 5 of 6 malformed payloads made the right answer afterwards fail too."""
    ledger = tmp_path / "ledger"
    session = puppet.call_tools([{"name": "charge", "args": {"ledger": str(ledger), "cents": 1}}])
    session_id, interrupt_id = session["session_id"], session["interrupts"][0]["interrupt_id"]
    problem(puppet.resume(session_id, interrupt_id, malformed), 422)
    assert not ledger.exists()
    ok(puppet.resume(session_id, interrupt_id, {"approved": True}))
    assert tool_results(puppet.wait(session_id)) == ["charged 1"]


def test_too_few_answers_are_no_approvals(puppet: Api, tmp_path: Path) -> None:
    """There the calls without a decision counted as approved."""
    ledger = tmp_path / "ledger"
    session = puppet.call_tools(
        [{"name": "charge", "args": {"ledger": str(ledger), "cents": cents}} for cents in (1, 2, 3)], questions=3
    )
    session_id, ids = session["session_id"], [entry["interrupt_id"] for entry in session["interrupts"]]
    ok(puppet.resume_all(session_id, {ids[1]: {"approved": True}}))
    assert [entry["interrupt_id"] for entry in puppet.session(session_id)["interrupts"]] == [ids[0], ids[2]]
    ok(puppet.resume_all(session_id, {ids[0]: {"approved": False}, ids[2]: {"approved": False}}))
    assert puppet.wait(session_id)["status"] == "idle"
    assert ledger.read_text() == "charged 2\n"


def test_no_payload_makes_a_session_unreadable(api: Api) -> None:
    """There a payload that was no object made every GET answer 500."""
    for payload in (["list"], "text", 7, None, {"type": 7}):
        session = api.run(api.create(), "ask", payload)
        assert session["status"] == "error"
        assert api.get("/interrupts").status_code == 200


def test_a_second_parallel_question_is_not_lost(either_api: Api) -> None:
    session_id, interrupts = either_api.asked("ask_all", [{"type": "question", "n": 1}, {"type": "question", "n": 2}])
    assert len(interrupts) == 2
    ok(either_api.resume(session_id, interrupts[1]["interrupt_id"], "b"))
    ok(either_api.resume(session_id, interrupts[0]["interrupt_id"], "a"))
    assert result(either_api.wait(session_id)) == ["a", "b"]


def test_the_loser_of_a_race_does_not_swallow_the_next_answer(either_api: Api) -> None:
    payload = {"type": "question"}
    session_id, interrupts = either_api.asked("ask_whoever_is_first", [payload, payload])
    assert result(either_api.resume_to_the_end(session_id, interrupts[1]["interrupt_id"], "first")) == "first"
    asking = either_api.run(session_id, "ask", payload)
    ok(either_api.resume(session_id, asking["interrupts"][0]["interrupt_id"], "second"))
    assert result(either_api.wait(session_id)) == "second"


def test_null_is_an_answer(either_api: Api) -> None:
    session_id, interrupt_id = either_api.ask({"type": "question"})
    ok(either_api.resume(session_id, interrupt_id, None))
    assert result(either_api.wait(session_id)) is None


def test_a_call_id_used_again_with_other_arguments_runs_nothing(puppet: Api, tmp_path: Path) -> None:
    """An approval is bound to the arguments shown, not to an id that the model chose."""
    ledger = tmp_path / "ledger"
    session = puppet.call_tools(
        [{"name": "charge", "id": "same", "args": {"ledger": str(ledger), "cents": 1}}],
        [{"name": "charge", "id": "same", "args": {"ledger": str(ledger), "cents": 1000}}],
    )
    session_id = session["session_id"]
    ok(puppet.resume(session_id, session["interrupts"][0]["interrupt_id"], {"approved": True}))
    charged, refused = tool_results(puppet.wait(session_id))
    assert charged == "charged 1"
    assert "stands for an approved call with other arguments" in refused["error"]
    assert ledger.read_text() == "charged 1\n"


def test_messages_are_not_doubled_by_a_resume(puppet: Api, tmp_path: Path) -> None:
    session = puppet.call_tools([{"name": "charge", "args": {"ledger": str(tmp_path / "ledger"), "cents": 1}}])
    session_id = session["session_id"]
    ok(puppet.resume(session_id, session["interrupts"][0]["interrupt_id"], {"approved": True}))
    puppet.wait(session_id)
    roles = [message["role"] for message in ok(puppet.get(f"/sessions/{session_id}/messages"))]
    assert roles == ["user", "assistant", "tool", "assistant"]
