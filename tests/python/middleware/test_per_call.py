"""`interrupt_mode="per_call"`: each call its own interrupt, decided by id, alone or together."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hitl import AlreadyResolved, InvalidAnswer, UnknownInterrupt, interrupt, tool
from hitl.middleware import ApprovalRequest, Command, HumanInTheLoopMiddleware, InterruptInfo, ToolCallAgent
from tests.python.middleware.files import DELETE, DONE, MIXED, Office, calls, office_agent, thread, told

APPROVE = {"type": "approve"}
REJECT = {"type": "reject"}
CONFIG = thread()
NOBODY = "01920000-0000-7000-8000-000000000000"


@pytest.fixture
def office() -> Office:
    return Office()


def per_call(office: Office, *replies: dict[str, Any], **options: Any) -> ToolCallAgent:
    return office_agent(office, *replies, interrupt_mode="per_call", **options)


def ids(result: dict[str, Any]) -> list[str]:
    return [shown.id for shown in result["__interrupt__"]]


def test_each_call_is_an_interrupt_in_the_order_of_the_calls(office: Office) -> None:
    paused = per_call(office, MIXED, DONE).invoke("go", CONFIG)
    delete, send = paused["__interrupt__"]
    assert isinstance(delete, InterruptInfo)
    assert delete["value"]["action_requests"] == [
        {"name": "delete_file", "args": {"path": "/a"}, "id": "call_0_1"},
    ]
    assert send["value"]["review_configs"] == [
        {"action_name": "send_email", "action_id": "call_0_2", "allowed_decisions": ["approve", "edit", "reject"]},
    ]
    assert delete.id != send.id
    assert delete.response_schema
    assert office.effects == [("look", "/x")]


def test_the_value_of_a_call_by_itself_says_what_would_run(office: Office) -> None:
    gates = {"delete_file": {"description": "Gone for good."}, "send_email": True}
    paused = per_call(office, MIXED, DONE, interrupt_on=gates).invoke("go", CONFIG)
    delete, send = (shown.value for shown in paused["__interrupt__"])
    members = ("type", "tool_call_id", "name", "args", "description")
    assert {name: delete[name] for name in members} == {
        "type": "tool_approval",
        "tool_call_id": "call_0_1",
        "name": "delete_file",
        "args": {"path": "/a"},
        "description": "Gone for good.",
    }
    assert (send["name"], send["description"]) == ("send_email", None)
    assert [shown["id"] for shown in paused["__interrupt__"]] == [
        shown["interrupt_id"] for shown in paused["__interrupt__"]
    ]
    assert json.loads(json.dumps(delete)) == delete


def test_a_batch_has_no_members_of_one_call(office: Office) -> None:
    (shown,) = office_agent(office, DELETE, DONE).invoke("go", CONFIG)["__interrupt__"]
    assert set(shown.value) == {"action_requests", "review_configs"}


def test_a_callback_finds_the_arguments_under_each_of_their_names(office: Office) -> None:
    seen: list[Any] = []

    def callback(request: ApprovalRequest) -> str:
        seen.extend([request.arguments, request.args, request.tool_args])
        return "approve"

    per_call(office, DELETE, DONE, approval_callback=callback).invoke("go", CONFIG)
    assert seen == [{"path": "/a"}] * 3


def test_all_decided_at_once(office: Office) -> None:
    agent = per_call(office, MIXED, DONE)
    delete, send = ids(agent.invoke("go", CONFIG))
    result = agent.invoke(
        Command(resume={send: {"type": "edit", "args": {"to": "bob"}}, delete: {"type": "reject", "reason": "no"}}),
        CONFIG,
    )
    assert office.effects == [("look", "/x"), ("send_email", "bob", "")]
    assert told(result)[1] == '{"error": "User rejected delete_file: no"}'


def test_one_decided_runs_and_the_other_stays_with_the_same_id(office: Office) -> None:
    agent = per_call(office, MIXED, DONE)
    delete, send = ids(agent.invoke("go", CONFIG))
    paused = agent.invoke(Command(resume={send: APPROVE}), CONFIG)
    assert ids(paused) == [delete]
    assert office.effects == [("look", "/x"), ("send_email", "ann", "hello")]

    agent.invoke(Command(resume={delete: APPROVE}), CONFIG)
    assert office.effects == [("look", "/x"), ("send_email", "ann", "hello"), ("delete_file", "/a")]


def test_a_single_call_needs_no_id(office: Office) -> None:
    agent = per_call(office, DELETE, DONE)
    agent.invoke("go", CONFIG)
    agent.invoke(Command(resume=APPROVE), CONFIG)
    assert office.effects == [("delete_file", "/a")]


def test_nothing_decided_leaves_the_same_interrupts(office: Office) -> None:
    agent = per_call(office, MIXED, DONE)
    paused = agent.invoke("go", CONFIG)
    assert agent.invoke(None, CONFIG)["__interrupt__"] == paused["__interrupt__"]
    assert office.effects == [("look", "/x")]


@pytest.mark.parametrize(
    ("resume", "error"),
    [
        ({NOBODY: APPROVE}, UnknownInterrupt),
        ({NOBODY: APPROVE, "delete": APPROVE}, UnknownInterrupt),
        ({"delete": {}}, InvalidAnswer),
        ({"delete": None}, InvalidAnswer),
        ({"delete": "approve"}, InvalidAnswer),
        ({"delete": {"type": "respond", "message": "x"}}, InvalidAnswer),
        ({"delete": APPROVE, "send": {"type": "edit", "args": {"to": 3}}}, InvalidAnswer),
        ({"delete": APPROVE, "send": {"type": "edit", "edited_action": {"name": "look", "args": {}}}}, InvalidAnswer),
        ({"decisions": [APPROVE, APPROVE]}, InvalidAnswer),
        (APPROVE, InvalidAnswer),
        ({}, InvalidAnswer),
        (None, InvalidAnswer),
    ],
    ids=repr,
)
def test_a_malformed_resume_changes_nothing(office: Office, resume: Any, error: type[Exception]) -> None:
    agent = per_call(office, MIXED, DONE)
    paused = agent.invoke("go", CONFIG)
    names = dict(zip(("delete", "send"), ids(paused), strict=True))
    given = {names.get(name, name): value for name, value in resume.items()} if isinstance(resume, dict) else resume
    with pytest.raises(error):
        agent.invoke(Command(resume=given), CONFIG)
    assert agent.invoke(None, CONFIG)["__interrupt__"] == paused["__interrupt__"]
    agent.invoke(Command(resume={names["delete"]: APPROVE, names["send"]: REJECT}), CONFIG)
    assert office.effects == [("look", "/x"), ("delete_file", "/a")]


def test_a_call_decided_before_is_not_decided_again(office: Office) -> None:
    agent = per_call(office, MIXED, DONE)
    delete, send = ids(agent.invoke("go", CONFIG))
    agent.invoke(Command(resume={send: APPROVE}), CONFIG)
    with pytest.raises(AlreadyResolved):
        agent.invoke(Command(resume={send: REJECT}), CONFIG)
    agent.invoke(Command(resume={delete: REJECT}), CONFIG)
    assert office.effects == [("look", "/x"), ("send_email", "ann", "hello")]


def test_middleware_of_one_agent_has_one_mode(office: Office) -> None:
    gates = [HumanInTheLoopMiddleware({"look": True}, interrupt_mode="per_call"), HumanInTheLoopMiddleware({})]
    with pytest.raises(ValueError, match="one interrupt_mode"):
        office_agent(office, DONE, middleware=gates)


class TestOtherQuestions:
    """What is asked by `interrupt()` is an entry of its own, in both modes."""

    @staticmethod
    def agent(office: Office, mode: Any, *made: Any) -> ToolCallAgent:
        @tool
        async def pick(topic: str) -> Any:
            return await interrupt({"type": "picker", "topic": topic})

        return office_agent(office, calls(*made), DONE, tools=[*office.tools, pick], interrupt_mode=mode)

    @pytest.mark.parametrize("mode", ["batched", "per_call"])
    @pytest.mark.parametrize("answer", ["red", "", None, False, 0, {"hex": "#f00"}, {"decisions": []}, [1]], ids=repr)
    def test_any_json_answers_the_only_one(self, office: Office, mode: Any, answer: Any) -> None:
        agent = self.agent(office, mode, ("pick", {"topic": "color"}))
        (shown,) = agent.invoke("go", CONFIG)["__interrupt__"]
        assert shown.value == {"type": "picker", "topic": "color"}
        result = agent.invoke(Command(resume=answer), CONFIG)
        import json

        (text,) = told(result)
        assert (text if isinstance(answer, str) else json.loads(text)) == answer

    def test_metadata_is_beside_the_value(self, office: Office) -> None:
        @tool
        async def pick() -> Any:
            return await interrupt({"type": "picker"}, metadata={"cost": 3})

        agent = office_agent(office, calls(("pick", {})), DONE, tools=[pick])
        (shown,) = agent.invoke("go", CONFIG)["__interrupt__"]
        assert shown.metadata == shown["metadata"] == {"cost": 3}
        assert shown.value == {"type": "picker"}

    @pytest.mark.parametrize("mode", ["batched", "per_call"])
    def test_beside_a_tool_call_each_is_answered_by_its_id(self, office: Office, mode: Any) -> None:
        agent = self.agent(office, mode, ("pick", {"topic": "color"}), ("delete_file", {"path": "/a"}))
        call, question = agent.invoke("go", CONFIG)["__interrupt__"]
        with pytest.raises(InvalidAnswer, match="say which"):
            agent.invoke(Command(resume="red"), CONFIG)
        decided = {"decisions": [APPROVE]} if mode == "batched" else APPROVE
        result = agent.invoke(Command(resume={question.id: "red", call.id: decided}), CONFIG)
        assert told(result) == ["red", "deleted /a"]

    def test_decisions_go_to_the_batch_and_the_question_stays(self, office: Office) -> None:
        agent = self.agent(office, "batched", ("pick", {"topic": "color"}), ("delete_file", {"path": "/a"}))
        _, question = agent.invoke("go", CONFIG)["__interrupt__"]
        paused = agent.invoke(Command(resume={"decisions": [APPROVE]}), CONFIG)
        assert ids(paused) == [question.id]
        assert office.effects == [("delete_file", "/a")]
