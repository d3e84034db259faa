"""What agents of pydantic-ai may do in a turn, each from every prefix of its journal too."""

from __future__ import annotations

import json
import sys
import types
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_ai import (
    Agent,
    ApprovalRequired,
    CallDeferred,
    DeferredToolRequests,
    ExternalToolset,
    FunctionToolset,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ModelRetry,
    RunContext,
    TextPart,
    ToolCallPart,
    ToolDefinition,
)
from pydantic_ai.capabilities import RequestInput
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.external_events import wait_for_external_event
from pydantic_ai.messages import ThinkingPart, ToolReturnPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.toolsets import ApprovalRequiredToolset

import hitl
from hitl import ChatMessage, RunState
from hitl.driver.shapes import as_agent as load
from hitl.errors import AgentLoadError
from hitl.ext.pydantic_ai import HitlDurability, as_agent
from hitl.ext.pydantic_ai.messages import history_of, turn_of
from hitl.testing import HitlServer
from tests.python.support.prefixes import Effects, Run, run_all_prefixes

Calls = list[tuple[str, dict[str, Any]]]
APPROVE = {"type": "approve"}


def says(*rounds: Calls) -> FunctionModel:
    """A model that has each round of calls made, and then repeats what came of them."""

    def reply(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        done = sum(isinstance(message, ModelResponse) for message in messages)
        if done < len(rounds):
            calls = [
                ToolCallPart(name, args, tool_call_id=f"c{done}{n}") for n, (name, args) in enumerate(rounds[done])
            ]
            return ModelResponse(parts=calls)
        parts = [part for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]
        said = sorted((part.tool_call_id, part.outcome, part.content) for part in parts)
        return ModelResponse(parts=[TextPart(json.dumps([each[1:] for each in said]))])

    return FunctionModel(reply)


class Timeless:
    """An agent whose messages do not say when they were made, which is when they were made last, nor what the model is
    told beside them."""

    def __init__(self, agent: Any) -> None:
        self._served = as_agent(agent)
        self.name = self._served.name

    async def run_turn(self, message: ChatMessage, state: list[ChatMessage]) -> Any:
        reply, after = await self._served.run_turn(message, state)
        for kept in (reply.user_params or {})["native"]["messages"]:
            kept.pop("instructions", None)
            kept["parts"] = [part for part in kept["parts"] if part["part_kind"] != "system-prompt"]
            for each in (kept, *kept["parts"]):
                each.pop("timestamp", None)
        return reply, after


async def proved(
    make: Callable[[Effects], Any], answers: Callable[[Any], Any] | None = None, **more: Any
) -> tuple[Run, list[Any]]:
    """A run, which every prefix of its journal leads to as well; and what the model was told of its calls."""
    run = await run_all_prefixes(lambda effects: Timeless(make(effects)), answers, **more)
    return run, json.loads(run.response.content or "")


def payer(effects: Effects, *rounds: Calls, **options: Any) -> Agent[Any, Any]:
    """An agent that pays, once it may."""
    agent = Agent(says(*(rounds or ([("pay", {"cents": 5})],))), name="payer", **options)

    @agent.tool_plain(requires_approval=True)
    def pay(cents: int) -> str:
        effects.append(cents)
        return f"paid {cents}"

    return agent


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


async def test_what_a_person_gave_is_read_as_the_models_arguments_are() -> None:
    def make(effects: Effects) -> Any:
        agent = Agent(says([("pay", {"cents": 5})], [("pay", {"cents": 6})]), name="payer")

        @agent.tool_plain(requires_approval=True)
        def pay(payment: Payment) -> str:
            effects.append(payment.cents)
            return f"paid {payment.cents}"

        return agent

    edits = {5: 13, 6: 8}
    run, said = await proved(
        make, lambda asked: {"type": "edit", "args": {"cents": edits[asked["payload"]["tool_args"]["cents"]]}}
    )
    assert run.effects == [8]
    assert said[0][0] == "retried"
    assert "that a person gave do not fit pay" in str(said[0][1])
    assert said[1] == ["success", "paid 8"]


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


# -- runs --------------------------------------------------------------------------------------------------------------


async def test_a_tool_that_is_to_be_called_again_is() -> None:
    def make(effects: Effects) -> Any:
        agent = Agent(says([("guess", {"number": 1})], [("guess", {"number": 2})]), name="guesser")

        @agent.tool_plain
        async def guess(number: int) -> str:
            effects.append(number)
            if number == 1:
                raise ModelRetry("higher")
            return "right"

        return agent

    run, said = await proved(make)
    assert [each[0] for each in said] == ["retried", "success"]
    assert run.effects == [1, 2]


async def test_a_tool_that_fails_fails_the_turn_with_its_own_error() -> None:
    agent = Agent(says([("fail", {})]), name="failing")

    @agent.tool_plain
    def fail() -> str:
        raise LookupError("no such account")

    result = await hitl.run(agent, "go")
    assert (result.status, result.error) == ("error", "LookupError: no such account")


async def test_a_nested_agent_asks_in_its_own_name_and_what_it_did_is_done_once() -> None:
    def make(effects: Effects) -> Any:
        inner = payer(effects, [("pay", {"cents": 2}), ("pay", {"cents": 3})])
        outer = Agent(says([("delegate", {"to": "a"}), ("delegate", {"to": "b"})]), name="outer")

        @outer.tool
        async def delegate(ctx: RunContext[None], to: str) -> str:
            return str((await inner.run(to, usage=ctx.usage)).output)

        return outer

    run, said = await proved(make, lambda asked: APPROVE)
    paid = json.dumps([["success", "paid 2"], ["success", "paid 3"]])
    assert said == [["success", paid]] * 2
    assert sorted(run.effects) == [2, 2, 3, 3]
    assert {asked["agent"] for asked in run.requests} == {"payer"}


async def test_toolsets_of_every_kind_are_steps_and_gated() -> None:
    def make(effects: Effects) -> Any:
        def add(a: int, b: int) -> int:
            effects.append(a + b)
            return a + b

        def drop(table: str) -> str:
            effects.append(table)
            return "dropped"

        asks = ApprovalRequiredToolset(FunctionToolset([drop]), lambda ctx, tool, args: args["table"] == "users")
        agent = Agent(
            says([("add", {"a": 1, "b": 2}), ("drop", {"table": "users"}), ("drop", {"table": "tmp"})], [("late", {})]),
            name="dba",
            toolsets=[FunctionToolset([add]), asks],
        )

        @agent.toolset
        def made_for_the_run(ctx: RunContext[None]) -> FunctionToolset:
            def late() -> str:
                effects.append("late")
                return "later"

            return FunctionToolset([late])

        return agent

    run, said = await proved(make, lambda asked: APPROVE)
    assert said == [["success", 3], ["success", "dropped"], ["success", "dropped"], ["success", "later"]]
    assert [asked["payload"]["tool_args"] for asked in run.requests] == [{"table": "users"}]


async def test_tools_of_a_server_of_mcp_are_not_the_programs_own(monkeypatch: pytest.MonkeyPatch) -> None:
    class Shelf(FunctionToolset[Any]):
        """Stands for a connection, which would need a library more."""

    module: Any = types.ModuleType("pydantic_ai.mcp")
    module.MCPToolset = Shelf
    monkeypatch.setitem(sys.modules, "pydantic_ai.mcp", module)

    def write(line: str) -> str:
        return f"wrote {line}"

    def make(effects: Effects) -> Any:
        shelf = ApprovalRequiredToolset(Shelf([write], id="shelf"), lambda *_: True)
        return Agent(says([("write", {"line": "a"})]), name="librarian", toolsets=[shelf])

    run, _ = await proved(make, lambda asked: APPROVE)
    assert [asked["tool_source"] for asked in run.requests] == ["mcp:shelf"]
    run, _ = await proved(payer, lambda asked: APPROVE)
    assert [asked["tool_source"] for asked in run.requests] == [None]


async def test_an_output_type_is_the_reply_as_json() -> None:
    class City(BaseModel):
        name: str
        people: int

    agent = Agent(TestModel(custom_output_args={"name": "Oslo", "people": 7}), name="atlas", output_type=City)
    result = await hitl.run(agent, "Which?")
    assert City.model_validate_json(result.output or "") == City(name="Oslo", people=7)


@dataclass
class Account:
    owner: str


@pytest.mark.parametrize("how", ["context", "user_params"])
async def test_deps_are_made_anew_from_what_the_turn_began_with(how: str) -> None:
    made: list[Any] = []

    async def account(params: Any) -> Account:
        made.append(params)
        return Account(params["owner"])

    agent = Agent(says([("pay", {})]), name="bank", deps_type=Account)

    @agent.tool(requires_approval=True)
    def pay(ctx: RunContext[Account]) -> str:
        return f"paid by {ctx.deps.owner}"

    served = as_agent(agent, deps=account)
    given = {"owner": "ada"}
    message = ChatMessage.user_message(content="go", user_params=given if how == "user_params" else None)
    first = await hitl.run(served, message, context=given if how == "context" else None)
    state = RunState.from_string(served, first.state.to_string())
    result = await hitl.run(served, state.approve(state.interrupts[0]))
    assert result.output == '[["success", "paid by ada"]]'
    assert made == [given, given]


def test_an_agent_that_needs_deps_and_gets_none_says_so_before_the_first_turn() -> None:
    served: Any = load(Agent(TestModel(), name="bank", deps_type=Account)).target
    with pytest.raises(AgentLoadError, match="'bank' needs deps of type Account") as caught:
        served.prepare()
    assert "deps=" in (caught.value.hint or "")


# -- models ------------------------------------------------------------------------------------------------------------


async def test_what_a_model_says_is_shown_once_as_it_says_it() -> None:
    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | dict[int, Any]]:
        inner_says = any("nested" in str(message) for message in messages)
        for word in ("one ", "two") if not inner_says else ("hid", "den"):
            yield word

    nested = Agent(FunctionModel(stream_function=stream), name="nested")
    agent = payer([])
    agent.model = FunctionModel(says([("ask", {}), ("pay", {"cents": 5})]).function, stream_function=_words)

    @agent.tool_plain
    async def ask() -> str:
        return (await nested.run("nested")).output

    running = hitl.stream(agent, "go")
    first = [event.data["delta"] async for event in running if event.type == "message.delta"]
    state = running.result.state
    again = hitl.stream(agent, state.approve(state.interrupts[0]))
    later = [event.data["delta"] async for event in again if event.type == "message.delta"]
    assert (first, later) == ([], [{"content": "one "}, {"content": "two"}])
    assert again.result.output == "one two"


async def _words(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
    from pydantic_ai.models.function import DeltaToolCall

    if not any(isinstance(message, ModelResponse) for message in messages):
        yield {0: DeltaToolCall("ask", "{}", tool_call_id="c0")}
        yield {1: DeltaToolCall("pay", '{"cents": 5}', tool_call_id="c1")}
    else:
        yield "one "
        yield "two"


async def test_usage_is_counted_over_all_agents_and_kept() -> None:
    result = await hitl.run(payer([]), "go")
    assert result.usage["requests"] == 1
    result = await hitl.run(payer([]), result.state.approve(result.interrupts[0]))
    assert result.usage["requests"] == 2
    assert result.usage["total_tokens"] == result.usage["input_tokens"] + result.usage["output_tokens"] > 0


async def test_a_model_that_is_away_suspends_the_turn_and_is_asked_again_when_it_is_retried() -> None:
    away = [True]

    def reply(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if away[0]:
            raise ModelHTTPError(503, "m")
        return ModelResponse(parts=[TextPart("back")])

    served = as_agent(Agent(FunctionModel(reply), name="patient"), retries=0)
    result = await hitl.run(served, "go")
    assert (result.status, result.error_code) == ("error", "model_unavailable")
    away.clear()
    away.append(False)
    assert (await hitl.run(served, result.state)).output == "back"


async def test_an_error_of_a_model_that_does_not_pass_keeps_its_class() -> None:
    def reply(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        raise ModelHTTPError(401, "m", {"error": "no key"})

    result = await hitl.run(Agent(FunctionModel(reply), name="keyless"), "go")
    assert isinstance(result.exception, ModelHTTPError)
    assert result.exception.status_code == 401


async def test_a_prompt_that_says_what_time_it_is_is_not_compared() -> None:
    times = iter(range(1000))

    def make(effects: Effects) -> Any:
        agent = payer(effects)
        agent.system_prompt(lambda: f"It is {next(times)} o'clock.")
        agent.instructions(lambda: f"It is {next(times)} o'clock.")
        return agent

    turns: list[Any] = []
    run, _ = await proved(make, lambda asked: APPROVE, setup=turns.append)
    assert run.effects == [5]
    assert {warning for turn in turns for warnings in turn.port.replays for warning in warnings} == set()


# -- conversations -----------------------------------------------------------------------------------------------------


def test_a_conversation_is_kept_in_the_frameworks_own_form(hitl_server: HitlServer) -> None:
    seen: list[list[ModelMessage]] = []

    def reply(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        seen.append(messages)
        return ModelResponse(parts=[ThinkingPart("hm", signature="signed"), TextPart(f"reply {len(seen)}")])

    server = hitl_server(Agent(FunctionModel(reply), name="thinker", instructions="Be brief."))
    session = server.create_session(
        [ChatMessage.user_message(content="hello"), ChatMessage.assistant_message(content="hi")]
    )
    for content in ("one", "two"):
        server.send(content, session)
    state = server.client.get_messages(session.session_id)
    assert [message.content for message in state] == ["hello", "hi", "one", "reply 1", "two", "reply 2"]
    assert state[3].reasoning == "hm"
    kinds = [[part.part_kind for part in message.parts] for message in seen[1]]
    assert kinds == [["user-prompt"], ["text"], ["user-prompt"], ["thinking", "text"], ["user-prompt"]]
    thought = seen[1][3].parts[0]
    assert isinstance(thought, ThinkingPart)
    assert thought.signature == "signed"


def test_messages_that_were_taken_away_do_not_take_others_with_them() -> None:
    user = ChatMessage.user_message(content="one")
    made: list[ModelMessage] = [ModelRequest(parts=[UserPromptPart("one")]), ModelResponse(parts=[TextPart("done")])]
    kept = turn_of(user, made, "done")
    assert history_of(kept) == made
    before = [ChatMessage.user_message(content="kept"), ChatMessage.assistant_message(content="too")]
    whole = history_of([*turn_of(user, made, "done"), kept[-1]])
    assert whole == [*made, *made]
    assert [message.kind for message in history_of([*before, *kept])] == ["request", "response"] * 2


# -- others ------------------------------------------------------------------------------------------------------------


async def test_an_agent_may_say_itself_that_it_is_journaled() -> None:
    agent = payer([], capabilities=[HitlDurability()])
    result = await hitl.run(agent, "go")
    assert len(result.interrupts) == 1


async def test_outside_of_turns_everything_is_as_it_was() -> None:
    agent = Agent(says([("pay", {"cents": 5})]), name="payer", output_type=[str, DeferredToolRequests])

    @agent.tool_plain(requires_approval=True)
    def pay(cents: int) -> str:
        raise AssertionError("nobody approved it")

    result = await agent.run("go")
    assert isinstance(result.output, DeferredToolRequests)
    assert [call.tool_name for call in result.output.approvals] == ["pay"]
