"""One test for each row of the reference that these names come from, and what they refuse that others let pass."""

from __future__ import annotations

import dataclasses
import json
from typing import Any, get_type_hints

import pytest

import hitl.middleware
from hitl import InvalidAnswer, NothingPending
from hitl.middleware import (
    ActionRequest,
    AgentMiddleware,
    ApprovalDecision,
    ApprovalRequest,
    DecisionInput,
    HITLInterrupt,
    HITLManager,
    HumanInTheLoopMiddleware,
    InterruptInfo,
    InterruptOnConfig,
    InterruptValue,
    ParsedInterruptConfig,
    ResumeData,
    ReviewConfig,
    create_hitl_middleware,
    format_tool_call_description,
)
from hitl.tools.schema import InvalidArguments

CALL = {"name": "delete_file", "args": {"path": "/a"}, "id": "call_1"}
ACTION = ActionRequest(name="delete_file", args={"path": "/a"}, id="call_1")
REVIEW = ReviewConfig(action_name="delete_file", action_id="call_1", allowed_decisions=["approve", "reject"])
VALUE = InterruptValue(action_requests=[ACTION], review_configs=[REVIEW])

NAMES = """HumanInTheLoopMiddleware InterruptOnConfig ApprovalDecision DecisionInput ActionRequest ApprovalRequest
    ReviewConfig InterruptValue InterruptInfo ResumeData HITLInterrupt ParsedInterruptConfig HITLManager AgentMiddleware
    AgentRuntime ModelRequest ModelResponse create_hitl_middleware format_tool_call_description ToolCallAgent Command"""


@pytest.mark.parametrize("name", NAMES.split())
def test_every_name_is_there(name: str) -> None:
    assert getattr(hitl.middleware, name) is not None
    assert name in hitl.middleware.__all__


class TestInterruptOnConfig:
    def test_is_a_dict_whose_members_may_all_be_absent(self) -> None:
        config: InterruptOnConfig = {"allowed_decisions": ["approve"], "description": "Gone for ever."}
        assert isinstance(config, dict)
        assert InterruptOnConfig.__required_keys__ == frozenset()
        assert get_type_hints(InterruptOnConfig).keys() >= {"allowed_decisions", "description", "when"}


class TestApprovalDecision:
    def test_members_are_their_text(self) -> None:
        assert ApprovalDecision.APPROVE == "approve"
        assert [kind.value for kind in ApprovalDecision] == ["approve", "edit", "reject", "respond"]
        assert json.dumps(ApprovalDecision.EDIT) == '"edit"'


class TestDecisionInput:
    def test_args(self) -> None:
        assert DecisionInput("edit", args={"path": "/b"}).to_answer() == {"type": "edit", "args": {"path": "/b"}}

    def test_reason(self) -> None:
        assert DecisionInput("reject", reason="no").to_answer() == {"type": "reject", "reason": "no"}

    @pytest.mark.parametrize(
        ("given", "answer"),
        [
            ({"type": "approve"}, {"type": "approve"}),
            ({"type": "approve", "args": None, "reason": None}, {"type": "approve"}),
            ({"type": "approve", "always": True}, {"type": "approve", "always": True}),
            ({"type": ApprovalDecision.APPROVE}, {"type": "approve"}),
            ({"type": "edit", "args": {}}, {"type": "edit", "args": {}}),
            (
                {"type": "edit", "edited_action": {"name": "delete_file", "args": {"path": "/b"}}},
                {"type": "edit", "name": "delete_file", "args": {"path": "/b"}},
            ),
            ({"type": "reject"}, {"type": "reject"}),
            ({"type": "reject", "message": "Ask first."}, {"type": "reject", "message": "Ask first."}),
            ({"type": "respond", "message": "42"}, {"type": "respond", "message": "42"}),
            *(
                ({"type": "respond", "message": value}, {"type": "respond", "message": value})
                for value in (None, False, 0, "")
            ),
        ],
    )
    def test_from_dict(self, given: dict[str, Any], answer: dict[str, Any]) -> None:
        assert DecisionInput.from_dict(given).to_answer() == answer

    @pytest.mark.parametrize(
        "given",
        [
            {},
            {"type": None},
            {"type": "accept"},
            {"type": "ignore"},
            {"approved": True},
            {"type": "approve", "args": {"path": "/b"}},
            {"type": "approve", "approved": False},
            {"type": "approve", "edited_action": {"name": "delete_file", "args": {}}},
            {"type": "edit"},
            {"type": "edit", "args": {}, "edited_action": {"name": "delete_file", "args": {}}},
            {"type": "edit", "edited_action": {"name": "delete_file"}},
            {"type": "edit", "edited_action": "delete_file"},
            {"type": "reject", "args": {}},
            {"type": "respond"},
            "approve",
            None,
            ["approve"],
        ],
    )
    def test_from_dict_has_no_default_and_refuses_what_it_does_not_know(self, given: Any) -> None:
        with pytest.raises(InvalidAnswer):
            DecisionInput.from_dict(given)


class TestActionRequest:
    def test_name_args_and_id(self) -> None:
        assert (ACTION.name, ACTION.args, ACTION.id) == ("delete_file", {"path": "/a"}, "call_1")

    def test_by_key_too(self) -> None:
        assert (ACTION["name"], ACTION["args"], ACTION["id"]) == (ACTION.name, ACTION.args, ACTION.id)

    def test_to_dict(self) -> None:
        assert ACTION.to_dict() == CALL
        assert json.loads(json.dumps(ACTION)) == CALL


class TestApprovalRequest:
    def test_from_action_request(self) -> None:
        request = ApprovalRequest.from_action_request(ACTION)
        assert (request.tool_name, request.tool_args, request.tool_call_id) == ("delete_file", {"path": "/a"}, "call_1")
        assert request.args == request.tool_args


class TestReviewConfig:
    def test_to_dict(self) -> None:
        shown = {"action_name": "delete_file", "action_id": "call_1", "allowed_decisions": ["approve", "reject"]}
        assert REVIEW.to_dict() == shown
        described = ReviewConfig("delete_file", "call_1", [ApprovalDecision.APPROVE], "Gone for ever.")
        assert described.to_dict() == {**shown, "allowed_decisions": ["approve"], "description": "Gone for ever."}


class TestInterruptValue:
    def test_len(self) -> None:
        assert len(VALUE) == 2

    def test_iter(self) -> None:
        assert list(VALUE) == ["action_requests", "review_configs"]

    def test_getitem(self) -> None:
        assert VALUE["action_requests"] == [CALL]
        assert VALUE["review_configs"] == [REVIEW.to_dict()]
        with pytest.raises(KeyError):
            VALUE["other"]

    def test_to_dict(self) -> None:
        assert VALUE.to_dict() == {"action_requests": [CALL], "review_configs": [REVIEW.to_dict()]}
        assert VALUE.to_dict() == VALUE
        assert json.loads(json.dumps(VALUE)) == VALUE.to_dict()

    def test_attributes_are_objects(self) -> None:
        assert VALUE.action_requests[0].name == "delete_file"
        assert VALUE.review_configs[0].allowed_decisions == ["approve", "reject"]


class TestInterruptInfo:
    def test_to_dict(self) -> None:
        info = InterruptInfo(value=VALUE, interrupt_id="i")
        assert info.to_dict() == {"value": VALUE.to_dict(), "id": "i", "interrupt_id": "i"}
        assert json.loads(json.dumps([info])) == [info.to_dict()]

    def test_by_attribute_and_by_key(self) -> None:
        info = InterruptInfo(value=VALUE)
        assert info.value == info["value"] == VALUE
        assert info.value["action_requests"] == [CALL]
        assert info.id == info.interrupt_id == info["id"] == info["interrupt_id"]

    def test_every_interrupt_has_an_id_of_its_own(self) -> None:
        assert InterruptInfo(value=VALUE).interrupt_id != InterruptInfo(value=VALUE).interrupt_id


class TestResumeData:
    def test_from_dict(self) -> None:
        data = ResumeData.from_dict({"decisions": [{"type": "approve"}, DecisionInput("reject", reason="no")]})
        assert data.decisions == [DecisionInput("approve"), DecisionInput("reject", reason="no")]

    @pytest.mark.parametrize(
        "given",
        [
            {},
            None,
            [],
            {"decisions": None},
            {"decisions": {"type": "approve"}},
            {"decisions": [], "more": 1},
            {"decisions": [{"type": "approve"}, "approve"]},
        ],
    )
    def test_from_dict_does_not_take_nothing_for_a_decision(self, given: Any) -> None:
        with pytest.raises(InvalidAnswer):
            ResumeData.from_dict(given)

    def test_an_error_names_the_place(self) -> None:
        with pytest.raises(
            InvalidAnswer, match="decision 2: type: a decision is one of approve, edit, reject, respond"
        ):
            ResumeData.from_dict({"decisions": [{"type": "approve"}, {"type": "yes"}]})


class TestHITLInterrupt:
    def test_carries_the_interrupt(self) -> None:
        info = InterruptInfo(value=VALUE)
        error = HITLInterrupt(info)
        assert isinstance(error, Exception)
        assert error.interrupt_info is info
        assert error.value is VALUE
        assert str(error) == "waits for a person's decision: delete_file"


class TestParsedInterruptConfig:
    def test_from_config(self) -> None:
        parsed = ParsedInterruptConfig.from_config({"allowed_decisions": ["approve"], "description": "Gone."})
        assert parsed == ParsedInterruptConfig([ApprovalDecision.APPROVE], "Gone.")

    @pytest.mark.parametrize("config", [True, {}, {"description": "Gone."}])
    def test_true_and_no_allowed_decisions_mean_approve_edit_and_reject(self, config: Any) -> None:
        parsed = ParsedInterruptConfig.from_config(config)
        assert parsed is not None
        assert parsed.allowed_decisions == ["approve", "edit", "reject"]

    def test_false_means_no_approval(self) -> None:
        assert ParsedInterruptConfig.from_config(False) is None

    @pytest.mark.parametrize(
        "config",
        [
            None,
            "approve",
            1,
            {"allowed_decisions": []},
            {"allowed_decisions": ["aprove"]},
            {"allowed_decision": ["approve"]},
            {"when": True},
            {"description": 3},
            {"args_schema": "object"},
        ],
    )
    def test_what_cannot_be_meant_is_refused_and_gates_no_less(self, config: Any) -> None:
        with pytest.raises((TypeError, ValueError)):
            ParsedInterruptConfig.from_config(config)
        with pytest.raises((TypeError, ValueError), match="delete_file"):
            HumanInTheLoopMiddleware({"delete_file": config})

    def test_get_description(self) -> None:
        def describe(tool_call: Any, state: Any, runtime: Any) -> str:
            return f"{tool_call['args']['path']} of {state['user']} in {runtime}"

        state = {"user": "ann"}
        assert ParsedInterruptConfig([], "Gone.").get_description(CALL, state, "x") == "Gone."
        assert ParsedInterruptConfig([], describe).get_description(CALL, state, "x") == "/a of ann in x"
        assert ParsedInterruptConfig([]).get_description(CALL, state, "x") is None

    def test_a_description_that_raises_says_nothing(self, caplog: pytest.LogCaptureFixture) -> None:
        assert ParsedInterruptConfig([], lambda *_: 1 / 0).get_description(CALL, {}, None) is None
        assert "ZeroDivisionError" in caplog.text


class TestHITLManager:
    def test_init_reads_both_kinds_of_configuration(self) -> None:
        manager = HITLManager({"delete_file": True, "look": False, "send_email": {"allowed_decisions": ["approve"]}})
        assert manager.tool_configs.keys() == {"delete_file", "send_email"}

    def test_should_interrupt(self) -> None:
        manager = HITLManager({"delete_file": True, "look": False})
        assert manager.should_interrupt("delete_file")
        assert not manager.should_interrupt("look")
        assert not manager.should_interrupt("other")

    def test_get_config(self) -> None:
        manager = HITLManager({"delete_file": {"allowed_decisions": ["reject"]}})
        config = manager.get_config("delete_file")
        assert config is not None
        assert config.allowed_decisions == ["reject"]
        assert manager.get_config("look") is None

    def test_add_pending_action(self) -> None:
        manager = HITLManager({"delete_file": {"description": format_tool_call_description}})
        manager.add_pending_action(CALL, {}, None)
        (request,) = manager.create_interrupt().value["action_requests"]
        assert request == {**CALL, "description": "delete_file(path='/a')"}

    def test_add_pending_action_leaves_out_what_needs_no_approval(self) -> None:
        manager = HITLManager({"delete_file": True})
        manager.add_pending_action({**CALL, "name": "look"}, {}, None)
        assert not manager.has_pending_actions()

    def test_has_pending_actions(self) -> None:
        manager = HITLManager({"delete_file": True})
        assert not manager.has_pending_actions()
        manager.add_pending_action(CALL, {}, None)
        assert manager.has_pending_actions()

    def test_create_interrupt(self) -> None:
        manager = HITLManager({"delete_file": {"allowed_decisions": ["approve", "reject"]}})
        manager.add_pending_action(CALL, {}, None)
        info = manager.create_interrupt()
        assert isinstance(info, InterruptInfo)
        assert info.value == VALUE
        assert manager.has_pending_actions()

    def test_create_interrupt_of_nothing_is_an_error(self) -> None:
        with pytest.raises(NothingPending):
            HITLManager({"delete_file": True}).create_interrupt()

    def test_clear_pending(self) -> None:
        manager = HITLManager({"delete_file": True})
        manager.add_pending_action(CALL, {}, None)
        manager.clear_pending()
        assert not manager.has_pending_actions()

    def test_apply_decisions(self) -> None:
        manager = HITLManager({"delete_file": True, "send_email": {"allowed_decisions": ["reject", "respond"]}})
        calls = [
            {"name": "look", "args": {}, "id": "1"},
            {"name": "delete_file", "args": {"path": "/a"}, "id": "2"},
            {"name": "send_email", "args": {}, "id": "3"},
            {"name": "delete_file", "args": {"path": "/b"}, "id": "4"},
            {"name": "send_email", "args": {}, "id": "5"},
        ]
        decisions = [
            DecisionInput("approve"),
            DecisionInput("reject", reason="no"),
            DecisionInput("edit", args={"path": "/c"}),
            DecisionInput("respond", message="sent by hand"),
        ]
        assert manager.apply_decisions(decisions, calls) == [
            calls[0],
            calls[1],
            {"name": "delete_file", "args": {"path": "/c"}, "id": "4"},
        ]
        assert calls[3]["args"] == {"path": "/b"}

    def test_apply_decisions_keeps_the_shape_of_a_call(self) -> None:
        @dataclasses.dataclass
        class Function:
            name: str
            arguments: str

        @dataclasses.dataclass
        class Call:
            id: str
            function: Function

        manager = HITLManager({"delete_file": True})
        as_object = Call("1", Function("delete_file", '{"path": "/a"}'))
        as_dict = {"id": "2", "type": "function", "function": {"name": "delete_file", "arguments": '{"path": "/b"}'}}
        edit = DecisionInput("edit", args={"path": "/c"})
        edited_object, edited_dict = manager.apply_decisions([edit, edit], [as_object, as_dict])
        assert edited_object == Call("1", Function("delete_file", '{"path": "/c"}'))
        assert edited_dict == {
            "id": "2",
            "type": "function",
            "function": {"name": "delete_file", "arguments": '{"path": "/c"}'},
        }
        assert as_object.function.arguments == '{"path": "/a"}'

    @pytest.mark.parametrize(
        ("decisions", "error"),
        [
            ([], "expected 1, got 0"),
            ([{"type": "approve"}] * 2, "expected 1, got 2"),
            ([{"type": "edit", "args": {}}], "edit is not allowed"),
            ([{"type": "reject", "args": {}}], "args"),
            ([{}], "type"),
        ],
    )
    def test_apply_decisions_applies_all_or_nothing(self, decisions: list[Any], error: str) -> None:
        manager = HITLManager({"delete_file": {"allowed_decisions": ["approve", "reject"]}})
        with pytest.raises(InvalidAnswer, match=error):
            manager.apply_decisions(decisions, [CALL, {**CALL, "name": "look"}])

    def test_an_edit_cannot_change_the_tool(self) -> None:
        manager = HITLManager({"delete_file": True})
        edit = {"type": "edit", "edited_action": {"name": "look", "args": {}}}
        with pytest.raises(InvalidAnswer, match="cannot make it a call of look"):
            manager.apply_decisions([edit], [CALL])

    def test_arguments_that_cannot_be_read_are_not_shown_as_none(self) -> None:
        call = {"id": "1", "function": {"name": "delete_file", "arguments": "{"}}
        with pytest.raises(InvalidArguments):
            HITLManager({"delete_file": True}).add_pending_action(call, {}, None)


class TestHumanInTheLoopMiddleware:
    def test_is_a_middleware(self) -> None:
        assert issubclass(HumanInTheLoopMiddleware, AgentMiddleware)

    def test_init(self) -> None:
        def callback(request: ApprovalRequest) -> ApprovalDecision:
            return ApprovalDecision.APPROVE

        middleware = HumanInTheLoopMiddleware({"delete_file": True}, approval_callback=callback)
        assert middleware.interrupt_on == {"delete_file": True}
        assert middleware.approval_callback is callback
        assert middleware.interrupt_mode == "batched"

    def test_init_refuses_a_mode_it_does_not_know(self) -> None:
        with pytest.raises(ValueError, match="interrupt_mode"):
            HumanInTheLoopMiddleware({}, interrupt_mode="per-call")  # type: ignore[arg-type]

    def test_set_resume_data(self) -> None:
        middleware = HumanInTheLoopMiddleware({"delete_file": True})
        middleware.set_resume_data({"decisions": [{"type": "approve"}]})
        assert middleware.take_resume_data() == ResumeData([DecisionInput("approve")])
        assert middleware.take_resume_data() is None
        with pytest.raises(InvalidAnswer):
            middleware.set_resume_data({"decisions": ["approve"]})

    def test_before_agent(self) -> None:
        state: dict[str, Any] = {"messages": []}
        assert HumanInTheLoopMiddleware({"delete_file": True}).before_agent(state, None) is None  # type: ignore[func-returns-value, arg-type]
        assert state == {"messages": []}

    async def test_awrap_model_call(self) -> None:
        asked: list[Any] = []

        async def handler(request: Any) -> Any:
            asked.append(request)
            return "reply"

        middleware = HumanInTheLoopMiddleware({"delete_file": True})
        assert await middleware.awrap_model_call("request", handler) == "reply"  # type: ignore[arg-type, comparison-overlap]
        assert asked == ["request"]

    def test_get_interrupt_config(self) -> None:
        middleware = HumanInTheLoopMiddleware({"delete_file": True, "look": False})
        assert middleware.get_interrupt_config("delete_file") == {"allowed_decisions": ["approve", "edit", "reject"]}
        assert middleware.get_interrupt_config("look") is None
        assert middleware.get_interrupt_config("other") is None


class TestFunctions:
    def test_create_hitl_middleware(self) -> None:
        middleware = create_hitl_middleware("delete_file", "send_email", allowed_decisions=["approve", "reject"])
        assert middleware.get_interrupt_config("delete_file") == {"allowed_decisions": ["approve", "reject"]}
        assert middleware.get_interrupt_config("send_email") == {"allowed_decisions": ["approve", "reject"]}
        everything = create_hitl_middleware("delete_file").get_interrupt_config("delete_file")
        assert everything == {"allowed_decisions": ["approve", "edit", "reject"]}
        with pytest.raises(ValueError, match="empty"):
            create_hitl_middleware("delete_file", allowed_decisions=[])

    def test_format_tool_call_description(self) -> None:
        call = {"name": "transfer", "args": {"to": "ann", "amount": 3}, "id": "1"}
        assert format_tool_call_description(call, {}, None) == "transfer(to='ann', amount=3)"
        assert format_tool_call_description({"name": "now", "args": {}}, {}, None) == "now()"
