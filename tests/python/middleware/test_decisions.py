"""Batched decisions: by position over the calls that wait, all checked before one counts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hitl import InvalidAnswer, NothingPending, UnknownInterrupt
from hitl.middleware import ApprovalDecision, Command, DecisionInput
from tests.python.middleware.files import DELETE, DELETE_TWO, DONE, MIXED, Office, calls, office_agent, thread, told

APPROVE = {"type": "approve"}
REJECT = {"type": "reject"}
CONFIG = thread()


@pytest.fixture
def office() -> Office:
    return Office()


def decide(*decisions: Any) -> Command:
    return Command(resume={"decisions": list(decisions)})


def test_nothing_runs_before_the_decision_and_once_after_it(office: Office) -> None:
    agent = office_agent(office, DELETE, DONE)
    paused = agent.invoke("go", CONFIG)
    assert office.effects == []
    assert [message.role for message in paused["messages"]] == ["user", "assistant"]

    result = agent.invoke(decide(APPROVE), CONFIG)
    assert office.effects == [("delete_file", "/a")]
    assert result["messages"][-1].content == "done"
    assert "__interrupt__" not in result


def test_ungated_calls_of_the_same_message_run_at_once_and_only_once(office: Office) -> None:
    agent = office_agent(office, DELETE_TWO, DONE)
    agent.invoke("go", CONFIG)
    assert office.effects == [("look", "/b")]
    agent.invoke(decide(APPROVE, APPROVE), CONFIG)
    assert sorted(office.effects) == [("delete_file", "/a"), ("delete_file", "/c"), ("look", "/b")]


def test_positions_count_gated_calls_only(office: Office) -> None:
    agent = office_agent(office, MIXED, DONE)
    paused = agent.invoke("go", CONFIG)
    (shown,) = paused["__interrupt__"]
    assert [request["name"] for request in shown.value["action_requests"]] == ["delete_file", "send_email"]

    result = agent.invoke(decide(REJECT, APPROVE), CONFIG)
    assert office.effects == [("look", "/x"), ("send_email", "ann", "hello")]
    assert told(result) == ["/x: 3 files", '{"error": "User rejected delete_file"}', "sent to ann"]


async def test_positions_are_those_of_the_model_however_long_each_policy_takes(office: Office) -> None:
    import asyncio

    async def slow(request: Any) -> bool:
        await asyncio.sleep(0.05)
        return True

    agent = office_agent(
        office, MIXED, DONE, interrupt_on={"look": {"when": slow}, "delete_file": True, "send_email": {"when": slow}}
    )
    paused = await agent.ainvoke("go", CONFIG)
    names = [request["name"] for request in paused["__interrupt__"][0]["value"]["action_requests"]]
    assert names == ["look", "delete_file", "send_email"]
    await agent.ainvoke(decide(REJECT, APPROVE, REJECT), CONFIG)
    assert office.effects == [("delete_file", "/a")]


class TestRejecting:
    def test_a_reason_is_added_to_what_the_model_is_told(self, office: Office) -> None:
        agent = office_agent(office, DELETE, DONE)
        agent.invoke("go", CONFIG)
        result = agent.invoke(decide({"type": "reject", "reason": "keep it"}), CONFIG)
        assert told(result) == ['{"error": "User rejected delete_file: keep it"}']
        assert office.effects == []

    def test_a_message_replaces_it(self, office: Office) -> None:
        agent = office_agent(office, DELETE, DONE)
        agent.invoke("go", CONFIG)
        result = agent.invoke(decide({"type": "reject", "message": "Archive it.", "reason": "keep it"}), CONFIG)
        assert told(result) == ['{"error": "Archive it."}']


class TestEditing:
    @pytest.mark.parametrize(
        "edit",
        [
            {"type": "edit", "args": {"path": "/tmp"}},
            {"type": "edit", "edited_action": {"name": "delete_file", "args": {"path": "/tmp"}}},
            DecisionInput("edit", args={"path": "/tmp"}),
        ],
        ids=["args", "edited_action", "DecisionInput"],
    )
    def test_the_tool_sees_the_edited_arguments_and_the_model_is_told(self, office: Office, edit: Any) -> None:
        agent = office_agent(office, DELETE, DONE)
        agent.invoke("go", CONFIG)
        result = agent.invoke(decide(edit), CONFIG)
        assert office.effects == [("delete_file", "/tmp")]
        (text,) = told(result)
        assert text.startswith("deleted /tmp\n\n")
        assert '{"path":"/tmp"}' in text

    @pytest.mark.parametrize(
        "edit",
        [
            {"type": "edit", "args": {"path": 7}},
            {"type": "edit", "args": {}},
            {"type": "edit", "args": {"path": "/b", "more": 1}},
            {"type": "edit", "args": "/b"},
            {"type": "edit", "edited_action": {"name": "send_email", "args": {"to": "ann"}}},
            {"type": "edit", "edited_action": {"name": "look", "args": {"path": "/b"}}},
        ],
    )
    def test_arguments_that_do_not_fit_the_tool_change_nothing(self, office: Office, edit: Any) -> None:
        agent = office_agent(office, DELETE, DONE)
        agent.invoke("go", CONFIG)
        with pytest.raises(InvalidAnswer):
            agent.invoke(decide(edit), CONFIG)
        assert office.effects == []
        agent.invoke(decide(APPROVE), CONFIG)
        assert office.effects == [("delete_file", "/a")]


class TestResponding:
    @pytest.mark.parametrize("value", ["It was gone already.", "", None, False, 0, {"files": 3}])
    def test_answers_in_the_place_of_the_tool(self, office: Office, value: Any) -> None:
        agent = office_agent(office, DELETE, DONE, interrupt_on={"delete_file": {"allowed_decisions": ["respond"]}})
        agent.invoke("go", CONFIG)
        result = agent.invoke(decide({"type": "respond", "message": value}), CONFIG)
        assert office.effects == []
        (text,) = told(result)
        assert (text if isinstance(value, str) else json.loads(text)) == value

    def test_is_not_allowed_unless_it_is_listed(self, office: Office) -> None:
        agent = office_agent(office, DELETE, DONE)
        agent.invoke("go", CONFIG)
        with pytest.raises(InvalidAnswer):
            agent.invoke(decide({"type": "respond", "message": "done"}), CONFIG)


class TestFailingClosed:
    """Each of these approved, or poisoned the thread, somewhere in the field."""

    @pytest.mark.parametrize(
        "resume",
        [
            {"decisions": []},
            {"decisions": [APPROVE]},
            {"decisions": [APPROVE, APPROVE, APPROVE]},
            {"decisions": [APPROVE, {}]},
            {"decisions": [APPROVE, {"type": "accept"}]},
            {"decisions": [APPROVE, {"type": "approve", "approved": False}]},
            {"decisions": [APPROVE, {"approved": "false"}]},
            {"decisions": [APPROVE, {"type": "edit"}]},
            {"decisions": [APPROVE, {"type": "edit", "args": {"path": 3}}]},
            {"decisions": [APPROVE, {"type": "respond", "message": "ok"}]},
            {"decisions": [APPROVE, {"type": "reject", "reason": 7}]},
            {"decisions": [APPROVE, {"type": "approve", "always": "yes"}]},
            {"decisions": [APPROVE, None]},
            {"decisions": [APPROVE, "approve"]},
            {"decisions": [APPROVE, ApprovalDecision.APPROVE]},
            {"decisions": {"0": APPROVE, "1": APPROVE}},
            {"decision": [APPROVE, APPROVE]},
            {"decisions": [APPROVE, APPROVE], "more": True},
            [APPROVE, APPROVE],
            APPROVE,
            "approve",
            True,
            None,
            {},
        ],
        ids=repr,
    )
    def test_a_malformed_resume_runs_nothing_and_the_right_one_still_works(self, office: Office, resume: Any) -> None:
        agent = office_agent(office, DELETE_TWO, DONE)
        paused = agent.invoke("go", CONFIG)
        before = list(office.effects)
        with pytest.raises(InvalidAnswer):
            agent.invoke(Command(resume=resume), CONFIG)
        assert office.effects == before

        assert agent.invoke(None, CONFIG)["__interrupt__"] == paused["__interrupt__"]
        agent.invoke(decide(APPROVE, REJECT), CONFIG)
        assert office.effects == [*before, ("delete_file", "/a")]

    def test_an_error_names_the_place(self, office: Office) -> None:
        agent = office_agent(office, DELETE_TWO, DONE)
        agent.invoke("go", CONFIG)
        with pytest.raises(InvalidAnswer, match="decision 2"):
            agent.invoke(decide(APPROVE, {"type": "edit", "args": {"path": 3}}), CONFIG)

    def test_what_is_not_allowed_for_one_call_stops_all(self, office: Office) -> None:
        agent = office_agent(
            office, MIXED, DONE, interrupt_on={"delete_file": True, "send_email": {"allowed_decisions": ["reject"]}}
        )
        agent.invoke("go", CONFIG)
        with pytest.raises(InvalidAnswer):
            agent.invoke(decide(APPROVE, APPROVE), CONFIG)
        assert office.effects == [("look", "/x")]

    def test_a_decision_when_nothing_waits_is_an_error(self, office: Office) -> None:
        agent = office_agent(office, DELETE, DONE)
        for config in (CONFIG, None):
            with pytest.raises(NothingPending):
                agent.invoke(decide(APPROVE), config)
        agent.invoke("go", CONFIG)
        agent.invoke(decide(APPROVE), CONFIG)
        with pytest.raises(NothingPending):
            agent.invoke(decide(APPROVE), CONFIG)
        assert office.effects == [("delete_file", "/a")]

    def test_arguments_the_tool_does_not_take_are_the_models_to_mend(self, office: Office) -> None:
        agent = office_agent(office, calls(("delete_file", {"path": 3})), DONE)
        result = agent.invoke("go", CONFIG)
        assert "__interrupt__" not in result
        assert "path" in told(result)[0]
        assert office.effects == []


def test_several_batches_in_one_turn(office: Office) -> None:
    agent = office_agent(office, DELETE, calls(("send_email", {"to": "ann"})), DONE)
    first = agent.invoke("go", CONFIG)
    second = agent.invoke(decide(APPROVE), CONFIG)
    assert second["__interrupt__"][0].value["action_requests"][0]["name"] == "send_email"
    assert second["__interrupt__"][0].id != first["__interrupt__"][0].id
    agent.invoke(decide(REJECT), CONFIG)
    assert office.effects == [("delete_file", "/a")]


def test_the_same_batch_in_two_turns_has_two_ids(office: Office) -> None:
    agent = office_agent(office, DELETE_TWO, DONE, DELETE_TWO, DONE)
    ids = set()
    for message in ("first", "second"):
        ids.add(agent.invoke(message, CONFIG)["__interrupt__"][0].id)
        agent.invoke(decide(APPROVE, APPROVE), CONFIG)
    assert len(ids) == 2


def test_an_answer_by_the_id_of_the_batch(office: Office) -> None:
    agent = office_agent(office, DELETE_TWO, DONE)
    (shown,) = agent.invoke("go", CONFIG)["__interrupt__"]
    agent.invoke(Command(resume={shown.id: {"decisions": [REJECT, APPROVE]}}), CONFIG)
    assert ("delete_file", "/c") in office.effects
    assert ("delete_file", "/a") not in office.effects


def test_an_answer_to_a_batch_that_is_over_decides_nothing_about_the_next_one(office: Office) -> None:
    agent = office_agent(office, DELETE_TWO, MIXED, DONE)
    (first,) = agent.invoke("go", CONFIG)["__interrupt__"]
    agent.invoke(decide(REJECT, REJECT), CONFIG)
    before = list(office.effects)
    with pytest.raises(UnknownInterrupt):
        agent.invoke(Command(resume={first.id: {"decisions": [APPROVE, APPROVE]}}), CONFIG)
    assert office.effects == before


class TestAlways:
    def test_later_calls_of_the_tool_are_decided_alike(self, office: Office) -> None:
        agent = office_agent(office, DELETE, calls(("delete_file", {"path": "/z"})), MIXED, DONE)
        agent.invoke("go", CONFIG)
        paused = agent.invoke(decide({"type": "approve", "always": True}), CONFIG)
        assert office.effects == [("delete_file", "/a"), ("delete_file", "/z"), ("look", "/x"), ("delete_file", "/a")]
        assert [request["name"] for request in paused["__interrupt__"][0]["value"]["action_requests"]] == ["send_email"]

    def test_an_exact_decision_of_the_same_batch_beats_it(self, office: Office) -> None:
        agent = office_agent(office, DELETE_TWO, DONE)
        agent.invoke("go", CONFIG)
        agent.invoke(decide({"type": "approve", "always": True}, REJECT), CONFIG)
        assert office.effects == [("look", "/b"), ("delete_file", "/a")]
