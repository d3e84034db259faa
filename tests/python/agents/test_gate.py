"""The gate for loops that are not ours: `hitl.approval` and `@hitl.requires_approval`."""

from __future__ import annotations

import asyncio
import inspect
from datetime import timedelta
from typing import Any

import pytest

import hitl
from hitl import Approval, ChatMessage, InterruptExpired, InvalidAnswer, ReActAgent, Tool, ToolRejected
from hitl.testing import ScriptedChatClient
from hitl.tools.asking import ApprovalMismatch
from tests.python.support.local import PENDING, run_locally
from tests.python.support.prefixes import Effects, Run, run_all_prefixes

APPROVE = {"type": "approve"}
REJECT = {"type": "reject", "reason": "not mine"}


def edit(**args: Any) -> dict[str, Any]:
    return {"type": "edit", "args": args}


def reply(message: ChatMessage, state: list[ChatMessage], value: Any) -> Any:
    response = ChatMessage.assistant_message(content=str(value))
    return response, [*state, message, response]


def asks(**options: Any) -> Any:
    """Agents with a loop of their own, one of each kind: each asks once, does what was approved, and says so."""

    def make_async(effects: Effects) -> Any:
        async def agent(message: ChatMessage, state: list[ChatMessage]) -> Any:
            try:
                approved = await hitl.approval("transfer", {"cents": 500}, **options)
            except ToolRejected as no:
                return reply(message, state, no)
            await hitl.step(effects.append, approved.args)
            return reply(message, state, approved)

        return agent

    def make_sync(effects: Effects) -> Any:
        def agent(message: ChatMessage, state: list[ChatMessage]) -> Any:
            try:
                approved = hitl.approval.sync("transfer", {"cents": 500}, **options)
            except ToolRejected as no:
                return reply(message, state, no)
            hitl.step.sync(effects.append, approved.args)
            return reply(message, state, approved)

        return agent

    return [make_async, make_sync]


async def answered(answer: Any, **options: Any) -> list[Run]:
    return [await run_all_prefixes(make, lambda asked: answer) for make in asks(**options)]


# -- hitl.approval ---------------------------------------------------------------------------------------------------


async def test_a_yes_is_for_exactly_what_was_shown() -> None:
    for run in await answered(APPROVE):
        assert run.response.content == str(Approval({"cents": 500}))
        assert run.effects == [{"cents": 500}]


async def test_it_says_whose_call_it_is_and_where_the_tool_is_from() -> None:
    given = {"agent": "clerk", "source": "mcp:bank", "metadata": {"ticket": 7}}
    for run in await answered(APPROVE, **given):
        (asked,) = run.requests
        assert (asked["agent"], asked["tool_source"], asked["metadata"]) == tuple(given.values())


@pytest.mark.parametrize("wrong", [{"agent": 1}, {"source": ["x"]}, {"metadata": "x"}])
async def test_what_cannot_be_said_of_a_call_is_refused_before_anybody_is_asked(wrong: dict[str, Any]) -> None:
    for make in asks(**wrong):
        with pytest.raises(TypeError, match=f"approval\\(\\) {next(iter(wrong))} must be"):
            await run_locally(make([]), "go")


async def test_a_no_is_an_error_whose_text_is_for_the_model() -> None:
    for run in await answered(REJECT):
        assert run.response.content == "User rejected transfer: not mine"
        assert run.effects == []


async def test_an_edit_comes_back_as_what_was_approved() -> None:
    for run in await answered(edit(cents=1)):
        assert run.response.content == str(Approval({"cents": 1}, edited=True))


async def test_an_edit_that_does_not_fit_the_schema_approves_nothing() -> None:
    async def agent(message: ChatMessage, state: list[ChatMessage]) -> Any:
        schema = {"type": "object", "properties": {"cents": {"type": "integer"}}}
        with pytest.raises(InvalidAnswer, match="do not fit transfer: cents: "):
            await hitl.approval("transfer", {"cents": 500}, args_schema=schema)
        return reply(message, state, "refused")

    assert (await run_locally(agent, "go", answers=lambda asked: edit(cents="many"))).response.content == "refused"


async def test_a_response_says_that_nothing_is_to_run() -> None:
    for run in await answered({"type": "respond", "message": None}, allowed_decisions=["approve", "respond"]):
        assert run.response.content == str(Approval({"cents": 500}, responded=True, response=None))


async def test_it_is_the_interrupt_of_a_gated_tool() -> None:
    schema = {"type": "object", "properties": {"cents": {"type": "integer"}}}
    run, _ = await answered(APPROVE, description="Rent.", args_schema=schema, tool_call_id="call_7", expires_in=60)
    (request,) = run.requests
    assert request["type"] == "tool_approval"
    assert request["payload"] == {"type": "tool_approval", "tool_name": "transfer", "tool_args": {"cents": 500}}
    assert (request["message"], request["tool_call_id"], request["expires_in"]) == ("Rent.", "call_7", 60)
    assert request["allowed_decisions"] == ["approve", "edit", "reject"]
    assert (request["args_schema"], request["agent"], request["required"]) == (schema, "agent", True)
    from hitl import _core

    assert request["args_digest"] == _core.digest({"cents": 500})


async def test_a_key_names_the_question_wherever_it_stands() -> None:
    run, _ = await answered(APPROVE, key="rent")
    assert [entry["step"]["path"] for entry in run.port.journal if entry["entry"] == "ask"] == ["~rent"]


async def test_nobody_answering_in_time_is_an_error() -> None:
    async def agent(message: ChatMessage, state: list[ChatMessage]) -> Any:
        with pytest.raises(InterruptExpired):
            await hitl.approval("transfer", {}, expires_in=timedelta(seconds=5))
        return reply(message, state, "late")

    def nobody(asked: Any) -> Any:
        assert asked["expires_in"] == 5
        raise InterruptExpired("nobody answered in time")

    assert (await run_locally(agent, "go", answers=nobody)).response.content == "late"


async def test_arguments_that_the_caller_goes_on_changing_are_not_what_was_asked_about() -> None:
    given = {"to": ["ada"]}

    async def agent(message: ChatMessage, state: list[ChatMessage]) -> Any:
        return reply(message, state, (await hitl.approval("mail", given)).args)

    def person(asked: Any) -> Any:
        given["to"].append("everybody")
        return APPROVE

    result = await run_locally(agent, "go", answers=person)
    assert result.response.content == "{'to': ['ada']}"


async def test_a_call_id_that_comes_back_with_other_arguments_is_an_error() -> None:
    async def agent(message: ChatMessage, state: list[ChatMessage]) -> Any:
        await hitl.approval("pay", {"cents": 1}, tool_call_id="call_1")
        with pytest.raises(ApprovalMismatch, match="stands for an approved call"):
            await hitl.approval("pay", {"cents": 2}, tool_call_id="call_1")
        return reply(message, state, "ok")

    result = await run_locally(agent, "go", answers=lambda asked: APPROVE)
    assert len(result.requests) == 1


@pytest.mark.parametrize(
    ("args", "options", "error", "complaint"),
    [
        (("", {}), {}, TypeError, "takes the name of the tool first"),
        (("t", ["a"]), {}, TypeError, "args must be a dict"),
        (("t", {"a": object()}), {}, TypeError, "object"),
        (("t", {"a": float("nan")}), {}, ValueError, "NaN|nan"),
        (("t", {"a": "x" * 20_000}), {}, ValueError, "16384"),
        (("t", {}), {"description": 5}, TypeError, "description must be a str"),
        (("t", {}), {"allowed_decisions": ["maybe"]}, ValueError, "maybe"),
        (("t", {}), {"args_schema": "x"}, TypeError, "args_schema must be a JSON Schema"),
        (("t", {}), {"args_schema": {"type": 5}}, ValueError, "Invalid args_schema"),
        (("t", {}), {"expires_in": 0}, ValueError, r"approval\(\) expires_in must be a positive number"),
    ],
)
async def test_what_cannot_be_asked_is_an_error_and_asks_nobody(
    args: Any, options: Any, error: type[Exception], complaint: str
) -> None:
    async def agent(message: ChatMessage, state: list[ChatMessage]) -> Any:
        with pytest.raises(error, match=complaint):
            await hitl.approval(*args, **options)
        return reply(message, state, "ok")

    assert (await run_locally(agent, "go")).requests == []


async def test_outside_a_run_it_says_so() -> None:
    with pytest.raises(RuntimeError, match=r"approval\(\) called outside a hitl run"):
        await hitl.approval("transfer", {})
    with pytest.raises(RuntimeError, match=r"approval\(\) called outside a hitl run"):
        hitl.approval.sync("transfer", {})


async def test_several_at_once_are_answered_in_any_order() -> None:
    def make(effects: Effects) -> Any:
        async def agent(message: ChatMessage, state: list[ChatMessage]) -> Any:
            both = await asyncio.gather(*(hitl.approval("pay", {"cents": cents}) for cents in (1, 2)))
            return reply(message, state, [each.args["cents"] for each in both])

        return agent

    second = asyncio.Event()

    async def second_first(cents: int) -> Any:
        await second.wait() if cents == 1 else second.set()
        return APPROVE

    local = await run_locally(
        make([]), "go", answers=lambda asked: second_first(asked["payload"]["tool_args"]["cents"])
    )
    assert local.response.content == "[1, 2]"


# -- @hitl.requires_approval -----------------------------------------------------------------------------------------


def gated_agents(**options: Any) -> Any:
    def make_async(effects: Effects) -> Any:
        @hitl.requires_approval(**options)
        async def transfer(cents: int, to: str = "rent") -> str:
            effects.append((cents, to))
            return f"{cents} to {to}"

        async def agent(message: ChatMessage, state: list[ChatMessage]) -> Any:
            try:
                return reply(message, state, await transfer(500))
            except ToolRejected as no:
                return reply(message, state, no)

        return agent

    def make_sync(effects: Effects) -> Any:
        @hitl.requires_approval(**options)
        def transfer(cents: int, to: str = "rent") -> str:
            effects.append((cents, to))
            return f"{cents} to {to}"

        def agent(message: ChatMessage, state: list[ChatMessage]) -> Any:
            try:
                return reply(message, state, transfer(500))
            except ToolRejected as no:
                return reply(message, state, no)

        return agent

    def make_mixed(effects: Effects) -> Any:
        @hitl.requires_approval(**options)
        def transfer(cents: int, to: str = "rent") -> str:
            effects.append((cents, to))
            return f"{cents} to {to}"

        async def agent(message: ChatMessage, state: list[ChatMessage]) -> Any:
            with pytest.raises(RuntimeError, match=r"use: await (transfer|pay)\.call\("):
                transfer(500)
            try:
                return reply(message, state, await transfer.call(500))  # type: ignore[attr-defined]
            except ToolRejected as no:
                return reply(message, state, no)

        return agent

    return [make_async, make_sync, make_mixed]


@pytest.mark.parametrize(
    ("answer", "effects", "said"),
    [
        (APPROVE, [(500, "rent")], "500 to rent"),
        (edit(cents=1, to="ada"), [(1, "ada")], "1 to ada"),
        (REJECT, [], "User rejected transfer: not mine"),
    ],
)
async def test_a_plain_function_runs_once_as_it_was_approved(answer: Any, effects: Any, said: str) -> None:
    for make in gated_agents():
        run = await run_all_prefixes(make, lambda asked: answer)
        assert run.effects == effects
        assert run.response.content == said
        assert run.requests[0]["payload"]["tool_args"] == {"cents": 500, "to": "rent"}


async def test_it_takes_the_options_of_a_tool() -> None:
    seen: list[Any] = []

    def only_large(ctx: Any, args: dict[str, Any]) -> bool:
        seen.append(args)
        return bool(args["cents"] > 100)

    options = {"requires_approval": only_large, "name": "pay", "approval_description": "Hm.", "once": False}
    for make in gated_agents(**options):
        run = await run_all_prefixes(make, lambda asked: APPROVE)
        assert (run.requests[0]["payload"]["tool_name"], run.requests[0]["message"]) == ("pay", "Hm.")
    assert seen[0] == {"cents": 500, "to": "rent"}


async def test_it_keeps_its_kind_and_signature_for_other_frameworks() -> None:
    @hitl.requires_approval
    async def transfer(cents: int) -> str:
        """Move money."""
        return ""

    @hitl.requires_approval
    def plain(cents: int) -> str:
        return ""

    assert inspect.iscoroutinefunction(transfer)
    assert not inspect.iscoroutinefunction(plain)
    assert inspect.signature(transfer) == inspect.signature(plain)
    assert (transfer.__name__, transfer.__doc__) == ("transfer", "Move money.")


async def test_a_method_is_gated_on_its_object() -> None:
    class Bank:
        def __init__(self, name: str) -> None:
            self.name = name

        @hitl.requires_approval
        async def transfer(self, cents: int) -> str:
            return f"{self.name} moved {cents}"

    async def agent(message: ChatMessage, state: list[ChatMessage]) -> Any:
        return reply(message, state, await Bank("First").transfer(cents=5))

    result = await run_locally(agent, "go", answers=lambda asked: APPROVE)
    assert result.response.content == "First moved 5"
    assert result.requests[0]["payload"]["tool_args"] == {"cents": 5}


async def test_what_is_called_on_a_plain_method_takes_the_object_first() -> None:
    class Bank:
        name = "First"

        @hitl.requires_approval
        def transfer(self, cents: int = 0) -> str:
            return f"{self.name} moved {cents}"

    async def agent(message: ChatMessage, state: list[ChatMessage]) -> Any:
        bank: Any = Bank()
        for wrong in (bank.transfer.call(5), bank.transfer.call(cents=5)):
            with pytest.raises(TypeError, match=r"Bank\.transfer\.call\(\) takes the object first"):
                await wrong
        return reply(message, state, await Bank.transfer.call(bank, 5))

    result = await run_locally(agent, "go", answers=lambda asked: APPROVE)
    assert result.response.content == "First moved 5"


async def test_a_tool_that_is_made_of_it_is_as_gated_as_it_was() -> None:
    ran: list[int] = []

    @hitl.requires_approval(allowed_decisions=["approve", "reject"])
    async def transfer(cents: int) -> None:
        ran.append(cents)

    for made in (transfer, hitl.tool(transfer), hitl.tool(transfer, description="Moves money.")):
        script = [{"tool_calls": [{"name": "transfer", "args": {"cents": 5}, "id": "call_1"}]}, {"content": "done"}]
        agent = ReActAgent(client=ScriptedChatClient(script), tools=[made])
        result = await run_locally(agent, "go", answers=lambda asked: REJECT)
        assert [asked["tool_call_id"] for asked in result.requests] == ["call_1"]
        assert result.requests[0]["allowed_decisions"] == ["approve", "reject"]
    assert ran == []


async def test_a_tool_comes_back_as_a_gated_copy() -> None:
    @hitl.tool
    async def transfer(cents: int) -> None: ...

    gated = hitl.requires_approval(transfer)
    assert isinstance(gated, Tool)
    assert (gated.requires_approval, transfer.requires_approval) == (True, False)


async def test_outside_a_run_it_refuses_to_run() -> None:
    @hitl.requires_approval
    async def transfer(cents: int) -> None:
        raise AssertionError("it ran")

    @hitl.requires_approval
    def plain(cents: int) -> None:
        raise AssertionError("it ran")

    with pytest.raises(
        RuntimeError, match=r"transfer\(\) needs a person's approval, and was called outside a hitl run"
    ):
        await transfer(5)
    with pytest.raises(RuntimeError, match=r"plain\(\) needs a person's approval, and was called outside a hitl run"):
        await asyncio.to_thread(plain, 5)


async def test_what_would_gate_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="would gate nothing"):
        hitl.requires_approval(requires_approval=False)
    with pytest.raises(TypeError, match="no option 'requires_aproval'"):
        hitl.requires_approval(requires_aproval=True)  # type: ignore[call-arg]


async def test_calls_of_a_gated_function_wait_side_by_side() -> None:
    @hitl.requires_approval
    async def transfer(cents: int) -> int:
        return cents

    async def agent(message: ChatMessage, state: list[ChatMessage]) -> Any:
        return reply(message, state, await asyncio.gather(transfer(1), transfer(2)))

    waiting: list[Any] = []

    def person(asked: Any) -> Any:
        waiting.append(asked)
        return PENDING if len(waiting) < 2 else APPROVE

    from tests.python.support.local import LocalTurn

    local = LocalTurn(person)
    task = local.start(agent, ChatMessage.user_message(content="go"), [])
    while len(waiting) < 2:
        await asyncio.sleep(0)
    local.port.interrupts[0].give(edit(cents=7))
    response, _ = await task
    assert response.content == "[7, 2]"
