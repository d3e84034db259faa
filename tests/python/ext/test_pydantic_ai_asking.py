"""What agents of pydantic-ai ask people in a turn, from every prefix of its journal too: approvals and questions."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Literal

import pytest
from pydantic import BaseModel
from pydantic_ai import (
    Agent,
    ApprovalRequired,
    CallDeferred,
    ExternalToolset,
    ModelMessage,
    ModelResponse,
    ModelRetry,
    NativeOutput,
    RunContext,
    TextPart,
    ToolCallPart,
    ToolDefinition,
)
from pydantic_ai.capabilities import AbstractCapability, RequestInput
from pydantic_ai.external_events import wait_for_external_event
from pydantic_ai.models.function import AgentInfo, FunctionModel

import hitl
from hitl import ChatMessage
from hitl.driver.shapes import as_agent as load
from hitl.ext.pydantic_ai import deferred, gate
from tests.python.ext.pydantic_ai_runs import APPROVE, Timeless, payer, proved, says
from tests.python.support.local import LocalTurn
from tests.python.support.prefixes import Effects, run_all_prefixes

# -- approvals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "told", "effects"),
    [
        (APPROVE, ["success", "paid 5"], [5]),
        ({"type": "edit", "args": {"cents": 7}}, ["success", "paid 7"], [7]),
        ({"type": "reject", "reason": "too much"}, ["denied", "User rejected pay: too much"], []),
        ({"type": "reject", "message": "Ask Ada."}, ["denied", "Ask Ada."], []),
        ({"type": "respond", "message": {"paid": "by hand"}}, ["success", {"paid": "by hand"}], []),
    ],
    ids=["approve", "edit", "reject", "reject with a message", "respond"],
)
async def test_each_decision_goes_back_in_the_frameworks_words(answer: Any, told: Any, effects: Any) -> None:
    run, said = await proved(payer, lambda asked: answer)
    assert (said, run.effects) == ([told], effects)
    (asked,) = run.requests
    assert (asked["type"], asked["agent"], asked["tool_call_id"]) == ("tool_approval", "payer", "c00")
    assert asked["allowed_decisions"] == ["approve", "edit", "reject", "respond"]


async def test_a_tool_that_asks_in_its_body_says_why_and_is_told_of_the_yes() -> None:
    def make(effects: Effects) -> Any:
        agent = Agent(says([("wipe", {"path": "/etc"}), ("wipe", {"path": "/tmp"})]), name="wiper")

        @agent.tool
        async def wipe(ctx: RunContext[None], path: str) -> str:
            if path == "/etc" and not ctx.tool_call_approved:
                raise ApprovalRequired(metadata={"why": "protected", "hitl": {"description": "A protected path"}})
            effects.append((path, ctx.tool_call_metadata and ctx.tool_call_metadata["why"]))
            return "wiped"

        return agent

    run, said = await proved(make, lambda asked: APPROVE)
    assert said == [["success", "wiped"]] * 2
    assert sorted(run.effects, key=str) == [("/etc", "protected"), ("/tmp", None)]
    (asked,) = run.requests
    assert (asked["message"], asked["metadata"]) == ("A protected path", {"why": "protected"})


async def test_a_validator_may_ask_before_there_is_anything_to_run() -> None:
    def check(ctx: RunContext[None], cents: int) -> None:
        if cents > 3 and not ctx.tool_call_approved:
            raise ApprovalRequired

    def make(effects: Effects) -> Any:
        agent = Agent(says([("pay", {"cents": 5}), ("pay", {"cents": 1})]), name="payer")

        @agent.tool_plain(args_validator=check)
        def pay(cents: int) -> str:
            effects.append(cents)
            return f"paid {cents}"

        return agent

    run, said = await proved(make, lambda asked: {"type": "edit", "args": {"cents": 4}})
    assert said == [["success", "paid 4"], ["success", "paid 1"]]
    assert len(run.requests) == 1


class Payment(BaseModel):
    cents: int

    def model_post_init(self, _: Any) -> None:
        if self.cents == 13:
            raise ValueError("never thirteen")


def with_a_model_as_parameter(effects: Effects) -> Agent[Any, Any]:
    agent = payer_of_thrice()

    @agent.tool_plain(requires_approval=True)
    def pay(payment: Payment) -> str:
        effects.append(payment.cents)
        return f"paid {payment.cents}"

    return agent


def with_a_validator(effects: Effects) -> Agent[Any, Any]:
    def check(ctx: RunContext[None], cents: int) -> None:
        if cents == 13:
            raise ModelRetry("never thirteen")

    agent = payer_of_thrice()

    @agent.tool_plain(requires_approval=True, args_validator=check)
    def pay(cents: int) -> str:
        effects.append(cents)
        return f"paid {cents}"

    return agent


def with_a_validator_that_asks(effects: Effects) -> Agent[Any, Any]:
    def check(ctx: RunContext[None], cents: int) -> None:
        if cents == 13:
            raise ModelRetry("never thirteen")
        if not ctx.tool_call_approved:
            raise ApprovalRequired

    agent = payer_of_thrice()

    @agent.tool_plain(args_validator=check)
    def pay(cents: int) -> str:
        effects.append(cents)
        return f"paid {cents}"

    return agent


def payer_of_thrice() -> Agent[Any, Any]:
    return Agent(says(*([("pay", {"cents": cents})] for cents in (5, 6, 7))), name="payer")


THRICE = pytest.mark.parametrize(
    "make", [with_a_model_as_parameter, with_a_validator, with_a_validator_that_asks], ids=lambda it: it.__name__
)


def edit(cents: int) -> dict[str, Any]:
    return {"type": "edit", "args": {"cents": cents}}


@THRICE
async def test_an_edit_that_only_types_or_validators_refuse_is_asked_for_again(make: Any) -> None:
    """By itself the framework would tell the model, to which it is a try of its own, of which it has few."""
    run, said = await proved(make, lambda asked: edit(8) if asked["message"] else edit(13))
    assert (said, run.effects) == ([["success", "paid 8"]] * 3, [8, 8, 8])
    assert [asked["payload"]["tool_args"]["cents"] for asked in run.requests] == [5, 5, 6, 6, 7, 7]
    for asked in run.requests[1::2]:
        assert asked["message"].startswith("The answer was refused: ")
        assert asked["message"].endswith("never thirteen")


@THRICE
async def test_asked_again_a_person_may_decide_otherwise(make: Any) -> None:
    again = {5: APPROVE, 6: {"type": "reject", "reason": "too much"}, 7: edit(8)}

    def answer(asked: Any) -> Any:
        return again[asked["payload"]["tool_args"]["cents"]] if asked["message"] else edit(13)

    run, said = await proved(make, answer)
    assert run.effects == [5, 8]
    assert said == [["success", "paid 5"], ["denied", "User rejected pay: too much"], ["success", "paid 8"]]


async def test_one_edit_is_asked_for_again_while_the_other_call_goes_on() -> None:
    def make(effects: Effects) -> Any:
        agent = Agent(says([("pay", {"cents": 5}), ("pay", {"cents": 6})]), name="payer")

        @agent.tool_plain(
            requires_approval=True, metadata={"hitl": {"description": "From the till.", "expires_in": 3600}}
        )
        def pay(payment: Payment) -> str:
            effects.append(payment.cents)
            return f"paid {payment.cents}"

        return agent

    def answer(asked: Any) -> Any:
        is_wrong = asked["payload"]["tool_args"] == {"cents": 5} and asked["message"] == "From the till."
        return edit(13) if is_wrong else APPROVE

    run, said = await proved(make, answer)
    assert said == [["success", "paid 5"], ["success", "paid 6"]]
    assert sorted(run.effects) == [5, 6]
    assert run.requests[2]["message"] == (
        "The answer was refused: arguments: Value error, never thirteen From the till."
    )


taken: set[int] = set()


class Slot(BaseModel):
    cents: int

    def model_post_init(self, _: Any) -> None:
        if self.cents in taken:
            raise ValueError("taken")


@pytest.mark.parametrize("is_collected", [False, True], ids=["gated", "collected"])
@pytest.mark.parametrize("is_validated", [False, True], ids=["types", "types and a validator"])
@pytest.mark.parametrize("is_asked_again", [True, False], ids=["asked again", "not asked again yet"])
async def test_an_edit_stays_refused_whatever_is_said_of_it_by_now(
    is_collected: bool, is_validated: bool, is_asked_again: bool
) -> None:
    """Also where the model has made another call by that id before, whose edit was taken. A validator of a tool is a
    step, which the recorded turn did not come to."""
    taken.add(13)
    effects: Effects = []

    class Reviewed(AbstractCapability[Any]):
        async def after_tool_validate(self, ctx: RunContext[Any], *, args: dict[str, Any], **_: Any) -> dict[str, Any]:
            if is_collected and not ctx.tool_call_approved:
                raise ApprovalRequired
            return args

    def check(ctx: RunContext[None], slot: Slot) -> None:
        """It has nothing against it."""

    def reply(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        done = sum(isinstance(message, ModelResponse) for message in messages)
        call = ToolCallPart("pay", {"cents": 5}, tool_call_id="same")
        return ModelResponse([call if done < 2 else TextPart("Done.")])

    def make() -> Any:
        agent = Agent(FunctionModel(reply), name="payer", capabilities=[Reviewed()])

        @agent.tool_plain(requires_approval=not is_collected, args_validator=check if is_validated else None)
        def pay(slot: Slot) -> str:
            effects.append(slot.cents)
            return f"paid {slot.cents}"

        return load(agent)

    async def run(answers: list[Any], journal: list[Any] | None) -> LocalTurn:
        turn = LocalTurn(lambda asked: answers.pop(0), agent="payer", journal=journal)
        await turn.run(make().run, ChatMessage.user_message(content="go"), [])
        await turn.end()
        return turn

    journal = (await run([edit(5), edit(13), edit(8)], None)).port.journal
    refused = next(at for at, entry in enumerate(journal) if entry.get("step", {}).get("name") == "pay.refused_edit")
    asked = [at for at, entry in enumerate(journal) if entry["entry"] == "ask"]
    assert (effects, len(asked)) == ([5, 8], 3)

    taken.clear()
    effects.clear()
    again = await run([edit(9)], journal[: (asked[2] if is_asked_again else refused) + 1])
    assert effects == [9]
    if not is_asked_again:
        (last,) = (each.request for each in again.port.interrupts)
        assert last["message"] == "The answer was refused: the arguments did not fit when they came."


async def test_validators_see_a_persons_arguments_once() -> None:
    """Also where one has put the call off, and the framework reads them by itself once more."""
    seen: list[tuple[int, bool]] = []

    def check(ctx: RunContext[None], cents: int) -> None:
        seen.append((cents, ctx.tool_call_approved))
        if not ctx.tool_call_approved:
            raise ApprovalRequired

    agent = Agent(says([("pay", {"cents": 5})]), name="payer")

    @agent.tool_plain(args_validator=check)
    def pay(cents: int) -> str:
        return f"paid {cents}"

    turn = LocalTurn(lambda asked: edit(8), agent="payer")
    await turn.run(load(agent).run, ChatMessage.user_message(content="go"), [])
    await turn.end()
    assert seen == [(5, False), (8, True)]


@pytest.mark.parametrize("wrong", [False, True], ids=["at once", "asked again"])
async def test_what_hooks_around_make_of_a_persons_arguments_they_make_once(wrong: bool) -> None:
    class Fee(AbstractCapability[Any]):
        async def wrap_tool_validate(
            self, ctx: RunContext[Any], *, args: Any, handler: Any, **_: Any
        ) -> dict[str, Any]:
            made: dict[str, Any] = await handler(args)
            made["cents"] += 100
            return made

    def check(ctx: RunContext[None], cents: int) -> None:
        if cents == 13:
            raise ModelRetry("never thirteen")
        if not ctx.tool_call_approved:
            raise ApprovalRequired

    def make(effects: Effects) -> Any:
        agent = Agent(says([("pay", {"cents": 5})]), name="payer", capabilities=[Fee()])

        @agent.tool_plain(args_validator=check)
        def pay(cents: int) -> str:
            effects.append(cents)
            return f"paid {cents}"

        return agent

    run, said = await proved(make, lambda asked: edit(13) if wrong and not asked["message"] else edit(8))
    assert (said, run.effects) == ([["success", "paid 108"]], [108])


@pytest.mark.parametrize("outcome", ["failed", "retried"])
@THRICE
async def test_a_turn_whose_model_was_told_of_a_persons_mistake_goes_on_so(
    make: Any, outcome: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As versions before this one did, the first of which told it to try again: its requests do not change when the
    turn goes on."""
    loaded, message = load(Timeless(make([]))), ChatMessage.user_message(content="go")

    def answer(asked: Any) -> Any:
        is_first = asked.get("payload", {}).get("tool_args") == {"cents": 5}  # of a recorded one nothing is known
        return edit(13) if is_first else APPROVE

    async def came_of(journal: list[Any] | None) -> tuple[list[Any], list[Any]]:
        turn = LocalTurn(answer, agent=loaded.name, journal=journal)
        reply, _ = await turn.run(loaded.run, message, [])
        await turn.end()
        return json.loads(reply.content or ""), turn.port.journal

    with monkeypatch.context() as before:
        before.setattr(gate, "is_refused", _is_not_there)
        before.setattr(deferred, "reads_at_once", _is_not_there)
        if outcome == "retried":
            before.setattr(gate, "patched", _is_not_there)
        said, journal = await came_of(None)
    assert [outcome for outcome, _ in said] == [outcome, "success", "success"]
    assert "never thirteen" in str(said[0][1])
    _, second, _ = (index for index, entry in enumerate(journal) if entry["entry"] == "ask")
    again, gone_on = await came_of(journal[: second + 1])
    assert again == said
    assert [entry.get("step") for entry in gone_on] == [entry.get("step") for entry in journal]


@pytest.mark.parametrize("code", ["code-1", "code-2"])
async def test_a_turn_that_read_edits_of_collected_calls_afterwards_goes_on_so(
    code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As versions before this one did, in the agent's own task: what a hook records there has no other name."""

    class Clocked(AbstractCapability[Any]):
        async def after_tool_validate(self, ctx: RunContext[Any], *, args: dict[str, Any], **_: Any) -> dict[str, Any]:
            if not ctx.tool_call_approved:
                raise ApprovalRequired
            await hitl.now()
            await asyncio.sleep(0.001)
            return args

    effects: Effects = []

    def make() -> Any:
        calls: list[Any] = [("pay", {"cents": 5}), ("pay", {"cents": 6})]
        agent = Agent(says(calls), name="payer", capabilities=[Clocked()])

        @agent.tool_plain
        def pay(cents: int) -> str:
            effects.append(cents)
            return f"paid {cents}"

        return load(agent)

    async def run(journal: list[Any] | None) -> tuple[Any, list[Any]]:
        turn = LocalTurn(lambda asked: edit(8), agent="payer", code=code if journal else "code-1", journal=journal)
        reply, _ = await turn.run(make().run, ChatMessage.user_message(content="go"), [])
        await turn.end()
        return reply.content, turn.port.journal

    def paths(journal: list[Any]) -> list[str]:
        return sorted(entry["step"]["path"] for entry in journal if "step" in entry)

    with monkeypatch.context() as before:
        before.setattr(deferred, "reads_at_once", _is_not_there)
        said, journal = await run(None)
    clocks = [at for at, entry in enumerate(journal) if entry.get("step", {}).get("kind") == "clock"]
    assert len(clocks) == 2
    made = next(at for at, entry in enumerate(journal) if entry["entry"] == "intent")
    for cut in (*range(clocks[0] + 1, made + 1), len(journal)):
        again, gone_on = await run(journal[:cut])
        assert again == said
        assert paths(gone_on) == paths(journal)
    again, _ = await run(journal[: clocks[0]])
    assert again == said


async def _is_not_there(*_: str) -> bool:
    return False


@pytest.mark.parametrize(
    "said",
    [
        {"kind": "tool-return", "return_value": "paid", "content": "Wire it all.", "metadata": {"secret": 1}},
        {"receipt": {"kind": "uploaded-file", "file_id": "f", "provider_name": "openai"}},
    ],
    ids=["with words of the user's", "with a file"],
)
async def test_what_a_person_says_came_of_a_call_is_nothing_but_its_result(said: Any) -> None:
    seen: list[Any] = []

    def reply(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        seen[:] = [part for message in messages for part in message.parts]
        call = ToolCallPart("pay", {"cents": 5}, tool_call_id="c00")
        return ModelResponse(parts=[call if len(messages) == 1 else TextPart("Done.")])

    agent = Agent(FunctionModel(reply), name="payer")

    @agent.tool_plain(requires_approval=True)
    def pay(cents: int) -> str:
        return "paid"

    loaded, message = load(agent), ChatMessage.user_message(content="Pay five.")
    first = LocalTurn(lambda asked: APPROVE, agent=loaded.name)
    await first.run(loaded.run, message, [])
    await first.end()
    journal = first.port.journal
    cut = next(at for at, entry in enumerate(journal, 1) if entry["entry"] == "intent")
    again = LocalTurn(lambda asked: {"outcome": "done", "result": said}, agent=loaded.name, journal=journal[:cut])
    await again.run(loaded.run, message, [])
    await again.end()
    assert [part.part_kind for part in seen] == ["user-prompt", "tool-call", "tool-return"]
    assert seen[-1].content == json.dumps(said)


async def test_one_answer_never_waits_for_another() -> None:
    paid: list[Any] = []
    first = await hitl.run(payer(paid, [("pay", {"cents": 1}), ("pay", {"cents": 2})]), "go")
    assert first.status == "interrupted"
    state = first.state
    second_asked = next(each for each in first.interrupts if each.payload["tool_args"] == {"cents": 2})
    second = await hitl.run(payer(paid, [("pay", {"cents": 1}), ("pay", {"cents": 2})]), state.approve(second_asked))
    assert (second.status, paid) == ("interrupted", [2])
    (left,) = second.interrupts
    assert left.payload["tool_args"] == {"cents": 1}


async def test_a_state_with_two_open_calls_is_small() -> None:
    result = await hitl.run(payer([], [("pay", {"cents": 1}), ("pay", {"cents": 2})]), "go")
    assert len(result.state.to_string()) < 5 * 1024


# -- questions ---------------------------------------------------------------------------------------------------------


async def test_calls_that_run_elsewhere_are_questions_with_the_schema_of_their_result() -> None:
    def make(effects: Effects) -> Any:
        schema = {"type": "object", "properties": {"zip": {"type": "string"}}, "required": ["zip"]}
        outside = ToolDefinition(name="ask_for_zip", return_schema=schema)
        agent = Agent(says([("ask_for_zip", {}), ("survey", {})]), name="clerk", toolsets=[ExternalToolset([outside])])

        @agent.tool_plain
        def survey() -> str:
            raise CallDeferred(metadata={"about": "taste"}, kind="question")

        return agent

    answers = {"external_call": {"zip": "94607"}, "question": "sweet"}
    run, said = await proved(make, lambda asked: answers[asked["type"]])
    assert said == [["success", {"zip": "94607"}], ["success", "sweet"]]
    by_type = {asked["type"]: asked for asked in run.requests}
    assert by_type["external_call"]["response_schema"]["required"] == ["zip"]
    assert by_type["question"]["payload"] == {
        "type": "question", "about": "taste", "tool_name": "survey", "tool_args": {}
    }  # fmt: skip


@pytest.mark.parametrize(
    ("decision", "told"),
    [(APPROVE, ["success", "paid 5"]), ({"type": "reject"}, ["denied", "User rejected pay"])],
    ids=["approve", "reject"],
)
async def test_who_asks_by_other_means_asks_here_and_an_event_from_outside_is_an_answer(
    decision: Any, told: Any
) -> None:
    async def never(*_: Any) -> Any:
        raise AssertionError("a person was asked by hitl already")

    handed: list[str] = []

    class Reviewed(RequestInput[Any]):
        async def before_run(self, ctx: RunContext[Any]) -> None:
            assert await wait_for_external_event("review", ask=handed.append) == {"by": "ada"}

    def make(effects: Effects) -> Any:
        return payer(effects, capabilities=[Reviewed(ask=never)])

    run, said = await proved(make, lambda asked: {"by": "ada"} if asked["type"] == "review" else decision)
    assert said == [told]
    assert [asked["type"] for asked in run.requests] == ["review", "tool_approval"]
    assert len(set(handed)) == 1


@pytest.mark.parametrize("end_strategy", ["early", "graceful"])
async def test_a_text_beside_a_gated_call_does_not_end_the_run(end_strategy: Literal["early", "graceful"]) -> None:
    def make(effects: Effects) -> Any:
        def reply(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
            said = [TextPart(json.dumps({"response": len(messages)}))]
            return ModelResponse([*said, ToolCallPart("pay", {}, tool_call_id="c1")] if len(messages) == 1 else said)

        agent = Agent(
            FunctionModel(reply), name="payer", output_type=NativeOutput(int, name="sum"), end_strategy=end_strategy
        )

        @agent.tool_plain(requires_approval=True)
        def pay() -> str:
            effects.append("paid")
            return "paid"

        return Timeless(agent)

    run = await run_all_prefixes(make, lambda asked: APPROVE)
    assert run.response.content == "3"
    assert run.effects == ["paid"]
    # What the model said beside it stays said.
    assert next(each.content for each in run.state if each.role == "assistant") == json.dumps({"response": 1})
