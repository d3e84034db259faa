"""Which calls wait: `when`, `approval_callback`, descriptions, and what a tool says of itself."""

from __future__ import annotations

import asyncio
import logging
import sys
from pathlib import Path
from typing import Any

import pytest

from hitl import Decision, ReActAgent, tool
from hitl.middleware import (
    AgentMiddleware,
    ApprovalDecision,
    ApprovalRequest,
    Command,
    DecisionInput,
    HITLManager,
    HumanInTheLoopMiddleware,
    ModelRequest,
    ModelResponse,
    ToolCallAgent,
    ToolCallRequest,
    create_hitl_middleware,
    format_tool_call_description,
)
from hitl.testing import ScriptedChatClient
from tests.python.middleware.files import DELETE, DONE, Office, calls, office_agent, thread, told

CONFIG = thread()
SHELF = Path(__file__).parent.parent / "support" / "mcp_server.py"
APPROVE = {"type": "approve"}


@pytest.fixture
def office() -> Office:
    return Office()


def waits(result: dict[str, Any]) -> list[dict[str, Any]]:
    return result["__interrupt__"][0]["value"]["action_requests"] if "__interrupt__" in result else []


class TestWhen:
    TWO = calls(("delete_file", {"path": "/etc/passwd"}), ("delete_file", {"path": "/tmp/x"}))

    @pytest.mark.parametrize("is_async", [False, True])
    def test_sees_the_call_and_decides_which_ones_wait(self, office: Office, is_async: bool) -> None:
        asked: list[ToolCallRequest] = []

        def when(request: ToolCallRequest) -> bool:
            asked.append(request)
            return request.tool_call["args"]["path"].startswith("/etc")

        async def when_async(request: ToolCallRequest) -> bool:
            await asyncio.sleep(0)
            return when(request)

        agent = office_agent(
            office, self.TWO, DONE, interrupt_on={"delete_file": {"when": when_async if is_async else when}}
        )
        assert [call["args"]["path"] for call in waits(agent.invoke("go", CONFIG))] == ["/etc/passwd"]
        assert office.effects == [("delete_file", "/tmp/x")]

        agent.invoke(Command(resume={"decisions": [APPROVE]}), CONFIG)
        assert office.effects == [("delete_file", "/tmp/x"), ("delete_file", "/etc/passwd")]
        assert len(asked) == 2  # not again at the resume
        first = asked[0]
        assert first.tool_call["name"] == "delete_file"
        assert first.tool_call["id"] == "call_0_0"
        assert first.tool is not None
        assert first.tool.name == "delete_file"
        assert [message.role for message in first.state["messages"]] == ["user", "assistant"]
        assert first.runtime is not None
        assert first.runtime.agent is agent

    @pytest.mark.parametrize("verdict", [None, 0, "no", [], ZeroDivisionError("x")], ids=repr)
    def test_what_is_not_plainly_no_waits(self, office: Office, verdict: Any) -> None:
        def when(request: ToolCallRequest) -> Any:
            if isinstance(verdict, Exception):
                raise verdict
            return verdict

        agent = office_agent(office, DELETE, DONE, interrupt_on={"delete_file": {"when": when}})
        assert len(waits(agent.invoke("go", CONFIG))) == 1
        assert office.effects == []

    def test_what_it_does_to_the_arguments_does_not_reach_the_tool(self, office: Office) -> None:
        def when(request: ToolCallRequest) -> bool:
            request.tool_call["args"]["path"] = "/etc"
            return False

        office_agent(office, DELETE, DONE, interrupt_on={"delete_file": {"when": when}}).invoke("go", CONFIG)
        assert office.effects == [("delete_file", "/a")]


class TestCallback:
    def test_decides_in_a_persons_place(self, office: Office) -> None:
        asked: list[ApprovalRequest] = []

        def callback(request: ApprovalRequest) -> ApprovalDecision:
            asked.append(request)
            return ApprovalDecision.APPROVE if request.args["path"] == "/a" else ApprovalDecision.REJECT

        two = calls(("delete_file", {"path": "/a"}), ("delete_file", {"path": "/b"}))
        result = office_agent(office, two, DONE, approval_callback=callback).invoke("go", CONFIG)
        assert "__interrupt__" not in result
        assert office.effects == [("delete_file", "/a")]
        assert [(request.tool_name, request.tool_call_id) for request in asked] == [
            ("delete_file", "call_0_0"),
            ("delete_file", "call_0_1"),
        ]
        assert "rejected delete_file" in told(result)[1]

    @pytest.mark.parametrize(
        ("said", "effects"),
        [
            (DecisionInput("edit", args={"path": "/b"}), [("delete_file", "/b")]),
            ({"type": "edit", "args": {"path": "/b"}}, [("delete_file", "/b")]),
            (DecisionInput("respond", message="gone"), []),
            (Decision.approve(), [("delete_file", "/a")]),
            ("approve", [("delete_file", "/a")]),
            ("reject", []),
        ],
        ids=repr,
    )
    async def test_may_say_more_than_yes_and_no(self, office: Office, said: Any, effects: list[Any]) -> None:
        async def callback(request: ApprovalRequest) -> Any:
            return said

        every = ["approve", "edit", "reject", "respond"]
        agent = office_agent(
            office,
            DELETE,
            DONE,
            interrupt_on={"delete_file": {"allowed_decisions": every}},
            approval_callback=callback,
        )
        result = await agent.ainvoke("go", CONFIG)
        assert "__interrupt__" not in result
        assert office.effects == effects

    @pytest.mark.parametrize(
        "said",
        [None, True, 1, "yes", {}, {"type": "accept"}, ApprovalDecision.EDIT, ValueError("x")],
        ids=repr,
    )
    def test_anything_else_asks_a_person(self, office: Office, said: Any) -> None:
        def callback(request: ApprovalRequest) -> Any:
            if isinstance(said, Exception):
                raise said
            return said

        agent = office_agent(office, DELETE, DONE, approval_callback=callback)
        assert len(waits(agent.invoke("go", CONFIG))) == 1
        assert office.effects == []
        agent.invoke(Command(resume={"decisions": [APPROVE]}), CONFIG)
        assert office.effects == [("delete_file", "/a")]

    def test_is_not_asked_about_calls_that_need_no_approval(self, office: Office) -> None:
        agent = office_agent(
            office,
            calls(("look", {"path": "/a"}), ("delete_file", {"path": "/a"})),
            DONE,
            interrupt_on={"delete_file": {"when": lambda request: False}},
            approval_callback=lambda request: ApprovalDecision.REJECT,
        )
        agent.invoke("go", CONFIG)
        assert sorted(office.effects) == [("delete_file", "/a"), ("look", "/a")]


class TestDescriptions:
    def test_the_default_formatter(self, office: Office) -> None:
        agent = office_agent(
            office, DELETE, DONE, interrupt_on={"delete_file": {"description": format_tool_call_description}}
        )
        paused = agent.invoke("go", CONFIG)
        (review,) = paused["__interrupt__"][0]["value"]["review_configs"]
        assert review["description"] == waits(paused)[0]["description"] == "delete_file(path='/a')"

    def test_sees_the_conversation(self, office: Office) -> None:
        async def describe(tool_call: Any, state: Any, runtime: Any) -> str:
            return f"{state['messages'][0].content}: {tool_call['args']['path']}, asked by {runtime.agent.name}"

        agent = office_agent(
            office, DELETE, DONE, interrupt_on={"delete_file": {"description": describe}}, name="clerk"
        )
        assert waits(agent.invoke("tidy up", CONFIG))[0]["description"] == "tidy up: /a, asked by clerk"

    def test_a_description_that_raises_leaves_the_arguments_to_see(self, office: Office) -> None:
        agent = office_agent(office, DELETE, DONE, interrupt_on={"delete_file": {"description": lambda *_: 1 / 0}})
        assert waits(agent.invoke("go", CONFIG)) == [{"name": "delete_file", "args": {"path": "/a"}, "id": "call_0_0"}]

    def test_a_prefix_for_tools_without_one(self, office: Office) -> None:
        gate = HumanInTheLoopMiddleware({"delete_file": True}, description_prefix="Please look at this")
        paused = office_agent(office, DELETE, DONE, middleware=[gate]).invoke("go", CONFIG)
        assert waits(paused)[0]["description"] == "Please look at this\n\nTool: delete_file\nArgs: {'path': '/a'}"


def test_a_schema_for_the_form_is_shown_where_an_edit_is_allowed(office: Office) -> None:
    schema = {"type": "object", "properties": {"path": {"type": "string", "title": "Which file"}}}
    for decisions, shown in ((["approve", "edit"], schema), (["approve", "reject"], None)):
        config = {"allowed_decisions": decisions, "args_schema": schema}
        paused = office_agent(office, DELETE, DONE, interrupt_on={"delete_file": config}).invoke("go", CONFIG)
        (review,) = paused["__interrupt__"][0]["value"]["review_configs"]
        assert review.get("args_schema") == shown


class TestTheToolsOwnApproval:
    """A middleware makes a tool stricter, never laxer."""

    @staticmethod
    def gated(office: Office, **options: Any) -> Any:
        return tool(office.tools[0], requires_approval=True, **options)

    @pytest.mark.parametrize("config", [False, {"when": lambda request: False}, None])
    def test_stays(self, office: Office, config: Any) -> None:
        interrupt_on = {} if config is None else {"delete_file": config}
        agent = office_agent(office, DELETE, DONE, tools=[self.gated(office)], interrupt_on=interrupt_on)
        assert len(waits(agent.invoke("go", CONFIG))) == 1

    def test_keeps_its_decisions_unless_others_are_listed(self, office: Office) -> None:
        own = self.gated(office, allowed_decisions=["approve", "reject"])
        for config, allowed in (
            (True, ["approve", "reject"]),
            ({"description": "x"}, ["approve", "reject"]),
            ({"allowed_decisions": ["reject", "respond"]}, ["reject", "respond"]),
        ):
            agent = office_agent(office, DELETE, DONE, tools=[own], interrupt_on={"delete_file": config})
            (review,) = agent.invoke("go", CONFIG)["__interrupt__"][0]["value"]["review_configs"]
            assert review["allowed_decisions"] == allowed

    def test_a_policy_of_its_own_is_asked_too(self, office: Office) -> None:
        own = tool(office.tools[0], requires_approval=lambda context, args: args["path"] == "/a")
        two = calls(("delete_file", {"path": "/a"}), ("delete_file", {"path": "/b"}))
        agent = office_agent(
            office, two, DONE, tools=[own], interrupt_on={"delete_file": {"when": lambda request: False}}
        )
        assert [call["args"]["path"] for call in waits(agent.invoke("go", CONFIG))] == ["/a"]

    def test_its_own_code_decides_first(self, office: Office) -> None:
        own = self.gated(office, on_approval=lambda request: Decision.reject("never"))
        agent = office_agent(
            office, DELETE, DONE, tools=[own], approval_callback=lambda request: ApprovalDecision.APPROVE
        )
        assert "never" in told(agent.invoke("go", CONFIG))[0]
        assert office.effects == []

    def test_what_was_given_is_not_changed(self, office: Office) -> None:
        own = office.tools[0]
        office_agent(office, DONE, tools=[own])
        assert own.requires_approval is False


@pytest.mark.parametrize("given", [["delete_file"], "delete_file", None])
@pytest.mark.parametrize("take", [HumanInTheLoopMiddleware, HITLManager])
def test_what_is_no_dict_of_tools_is_named(take: Any, given: Any) -> None:
    with pytest.raises(TypeError, match=f"interrupt_on is a dict of tool names, got {type(given).__name__}"):
        take(given)


class TestAGateOfNoTool:
    """It would guard nothing. An agent is not made where one was meant for it, else it is logged."""

    def test_is_refused_with_what_is_like_it(self, office: Office) -> None:
        with pytest.raises(ValueError, match="interrupt_on names 'delete_fle', which is no tool of clerk") as raised:
            ReActAgent(name="clerk", tools=office.tools, middleware=[create_hitl_middleware("delete_fle", "look")])
        assert "did you mean 'delete_file'? (its tools: delete_file, look, send_email)" in str(raised.value)

    @pytest.mark.parametrize("name", ["delete_fiel", "deleteFile", "Delete_File", "delete_files"])
    def test_is_refused_where_one_tool_is_not_gated_that_may_be_meant(self, office: Office, name: str) -> None:
        with pytest.raises(ValueError, match=rf"names '{name}', .*; did you mean 'delete_file'\?"):
            ReActAgent(tools=office.tools, middleware=[create_hitl_middleware("look", name)])

    def test_is_refused_where_no_name_is_a_tool(self, office: Office) -> None:
        with pytest.raises(ValueError, match=r"names 'pay', which is no tool of agent \(its tools: delete_file, "):
            ReActAgent(tools=office.tools, middleware=[create_hitl_middleware("pay", "send")])

    @pytest.mark.parametrize("other", ["pay", "delete_files"])
    def test_is_logged_where_it_may_be_for_another_agent(
        self, office: Office, other: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        with caplog.at_level(logging.WARNING, "hitl.middleware"):
            ReActAgent(tools=office.tools, middleware=[create_hitl_middleware("delete_file", other)])
        assert f"interrupt_on names '{other}', which is no tool of agent" in caplog.text

    def test_is_refused_by_every_agent_of_ours(self, office: Office) -> None:
        with pytest.raises(ValueError, match="interrupt_on names 'delete_fle'"):
            office_agent(office, DONE, interrupt_on={"delete_fle": True, "look": True})

    def test_may_be_named_where_it_is_off(self, office: Office) -> None:
        office_agent(office, DONE, interrupt_on={"pay": False})

    def test_may_be_a_tool_of_another_middleware(self, office: Office) -> None:
        class Brings(AgentMiddleware):
            def wrap_tools(self, tools: tuple[Any, ...]) -> tuple[Any, ...]:
                return (*tools, tool(lambda: "", name="brought"))

        gate = create_hitl_middleware("brought")
        ReActAgent(tools=office.tools, middleware=[gate, Brings()])
        with pytest.raises(ValueError, match="interrupt_on names 'brought'"):  # which this gate is not shown
            ReActAgent(tools=office.tools, middleware=[Brings(), gate])

    async def test_may_be_a_handoff_that_is_added_later(self, office: Office, caplog: pytest.LogCaptureFixture) -> None:
        import hitl

        gate = create_hitl_middleware("transfer_to_other", "transfer_to_none")
        agent = ReActAgent(client=ScriptedChatClient([DONE, DONE]), tools=office.tools, middleware=[gate])
        agent.handoffs.append(ReActAgent(name="other"))
        with caplog.at_level(logging.WARNING, "hitl.middleware"):
            for _ in range(2):
                await hitl.run(agent, "go")
        assert [record.getMessage().partition(",")[0] for record in caplog.records] == [
            "interrupt_on names 'transfer_to_none'"
        ]

    async def test_is_logged_once_where_a_server_brings_tools(self, caplog: pytest.LogCaptureFixture) -> None:
        import hitl
        from hitl.tools.mcp import MCPTools

        gate = create_hitl_middleware("write", "wrte")
        replies = ScriptedChatClient([DONE, DONE])
        agent = ReActAgent(client=replies, tools=[MCPTools([sys.executable, str(SHELF)])], middleware=[gate])
        with caplog.at_level(logging.WARNING, "hitl.middleware"):
            for _ in range(2):
                await hitl.run(agent, "go")
        assert [record.getMessage().partition(" (")[0] for record in caplog.records] == [
            "interrupt_on names 'wrte', which is no tool of agent; did you mean 'write'?"
        ]


class TestMiddleware:
    def test_several_at_once(self, office: Office) -> None:
        agent = office_agent(
            office,
            calls(("delete_file", {"path": "/a"}), ("look", {"path": "/b"})),
            DONE,
            middleware=[create_hitl_middleware("delete_file"), create_hitl_middleware("look")],
        )
        assert [call["name"] for call in waits(agent.invoke("go", CONFIG))] == ["delete_file", "look"]

    def test_one_of_your_own(self, office: Office) -> None:
        seen: list[str] = []

        class Watch(AgentMiddleware):
            def before_agent(self, state: dict[str, Any], runtime: Any) -> dict[str, Any]:
                seen.append(f"before {len(state['messages'])}")
                return {"watched": True}

            async def awrap_model_call(self, request: ModelRequest, handler: Any) -> ModelResponse:
                reply: ModelResponse = await handler(request)
                seen.append(f"{len(request.messages)} -> {reply.message.content or 'calls'}")
                return reply

        agent = office_agent(office, calls(("look", {"path": "/b"})), DONE, middleware=[Watch(), AgentMiddleware()])
        agent.invoke("go", CONFIG)
        assert seen == ["before 1", "1 -> calls", "3 -> done"]

    async def test_gates_the_tools_of_any_agent_of_ours(self, office: Office) -> None:
        import hitl

        agent = ReActAgent(
            client=ScriptedChatClient([DELETE, DONE]),
            tools=office.tools,
            middleware=[HumanInTheLoopMiddleware({"delete_file": True}, interrupt_mode="per_call")],
        )
        result = await hitl.run(agent, "go")
        (asked,) = result.interrupts
        assert (asked.type, asked.tool_name) == ("tool_approval", "delete_file")
        result = await hitl.run(agent, result.state.approve(asked))
        assert result.output == "done"
        assert office.effects == [("delete_file", "/a")]

    def test_an_agent_as_a_tool_asks_on_the_outer_run(self, office: Office) -> None:
        inner = office_agent(office, DELETE, {"content": "inner done"}, name="cleaner")
        outer = office_agent(
            office,
            calls(("cleaner", {"input": "tidy"}), ("send_email", {"to": "ann"})),
            DONE,
            tools=[*office.tools, inner.as_tool()],
        )
        waiting = waits(outer.invoke("go", CONFIG))
        assert {call["name"]: call.get("agent") for call in waiting} == {"delete_file": "cleaner", "send_email": None}
        decisions = [APPROVE if call["name"] == "delete_file" else {"type": "reject"} for call in waiting]
        result = outer.invoke(Command(resume={"decisions": decisions}), CONFIG)
        assert office.effects == [("delete_file", "/a")]
        assert told(result)[0] == "inner done"

    def test_an_agent_that_took_over_asks_by_its_name(self, office: Office) -> None:
        other = office_agent(office, {"content": "x"}, DELETE, DONE, name="cleaner")
        first = ToolCallAgent(
            client=ScriptedChatClient([calls(("transfer_to_cleaner", {}))]), handoffs=[other], name="front"
        )
        assert waits(first.invoke("go", CONFIG))[0]["agent"] == "cleaner"
        assert first.invoke(Command(resume={"decisions": [APPROVE]}), CONFIG)["messages"][-1].content == "done"
        assert office.effects == [("delete_file", "/a")]
