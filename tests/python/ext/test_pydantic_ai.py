"""What agents of pydantic-ai may do in a turn, each from every prefix of its journal too."""

from __future__ import annotations

import json
import sys
import types
from collections.abc import AsyncIterable, AsyncIterator, Callable
from functools import partial
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_ai import (
    Agent,
    ApprovalRequired,
    DeferredToolRequests,
    FunctionToolset,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ModelRetry,
    RunContext,
    TextPart,
    Tool,
)
from pydantic_ai.capabilities import ProcessEventStream
from pydantic_ai.durable_exec import BaseDurabilityCapability
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import (
    RetryFeedbackPart,
    RetryInfo,
    SystemPromptPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.toolsets import ApprovalRequiredToolset, DynamicToolset

import hitl
from hitl import ChatMessage
from hitl.ext.pydantic_ai import HitlDurability, as_agent
from hitl.ext.pydantic_ai.backend import may_pass
from hitl.ext.pydantic_ai.messages import compared, history_of, to_chat, turn_of
from hitl.testing import HitlServer
from tests.python.ext.pydantic_ai_runs import APPROVE, payer, proved, says
from tests.python.support.prefixes import Effects, run_all_prefixes

# -- runs --------------------------------------------------------------------------------------------------------------


async def test_what_asks_a_model_is_bound_once_for_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    bound: list[str] = []
    bind = BaseDurabilityCapability._bind_model_operations

    def counted(self: Any, backend: Any, **named: Any) -> Any:
        bound.append(named["model_name"])
        return bind(self, backend, **named)

    monkeypatch.setattr(BaseDurabilityCapability, "_bind_model_operations", counted)
    agent = Agent(says([("look", {})], [("look", {})]), name="looker")
    agent.tool_plain(lambda: "seen", name="look")
    assert (await hitl.run(agent, "hi")).status == "idle"
    assert len(bound) == 1


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


async def test_a_run_that_wants_a_new_conversation_has_one() -> None:
    def make(effects: Effects) -> Any:
        class Twice:
            """Two runs of an agent in a turn, and one that leaves what they have said to each other."""

            name = "twice"

            async def run_turn(self, message: ChatMessage, state: list[ChatMessage]) -> Any:
                agent = Agent(TestModel(call_tools=[]), name="inner")
                first = await agent.run("go")
                more = await agent.run("on", message_history=first.all_messages())
                forked = [
                    await agent.run("other", message_history=first.all_messages(), conversation_id="new")
                    for _ in range(2)
                ]
                ids = [each.conversation_id for each in (first, more, *forked)]
                reply = ChatMessage.assistant_message(content=json.dumps(ids))
                return reply, [*state, message, reply]

        return Twice()

    run = await run_all_prefixes(make, None)
    first, more, *forked = json.loads(run.response.content or "")
    assert first == more
    assert len({first, *forked}) == 3


async def test_tools_of_a_server_of_mcp_are_not_the_programs_own(monkeypatch: pytest.MonkeyPatch) -> None:
    class Shelf(FunctionToolset[Any]):
        """Stands for a connection, which would need a library more."""

    module: Any = types.ModuleType("pydantic_ai.mcp")
    module.MCPToolset = Shelf
    monkeypatch.setitem(sys.modules, "pydantic_ai.mcp", module)

    def write(line: str) -> str:
        return f"wrote {line}"

    def check(ctx: RunContext[Any], line: str) -> None:
        if not ctx.tool_call_approved:
            raise ApprovalRequired

    def gated() -> Any:
        return ApprovalRequiredToolset(Shelf([write], id="shelf"), lambda *_: True)

    def checked() -> Any:
        return Shelf([Tool(write, args_validator=check)], id="shelf")

    def made(shelf: Callable[[], Any], **when: Any) -> Any:
        return DynamicToolset(lambda ctx: shelf(), **when)

    def make(effects: Effects, shelf: Callable[[], Any]) -> Any:
        return Agent(says([("write", {"line": "a"})]), name="librarian", toolsets=[shelf()])

    # Whoever asks: a gate around the server, or a validator, before there is anything to run; and whoever made it.
    for shelf in (gated, checked, partial(made, gated), partial(made, checked, per_run_step=False)):
        run, _ = await proved(partial(make, shelf=shelf), lambda asked: APPROVE)
        assert [asked["tool_source"] for asked in run.requests] == ["mcp:shelf"], shelf
        assert [asked["metadata"] for asked in run.requests] == [None]
    run, _ = await proved(payer, lambda asked: APPROVE)
    assert [asked["tool_source"] for asked in run.requests] == [None]


async def test_an_output_type_is_the_reply_as_json() -> None:
    class City(BaseModel):
        name: str
        people: int

    agent = Agent(TestModel(custom_output_args={"name": "Oslo", "people": 7}), name="atlas", output_type=City)
    result = await hitl.run(agent, "Which?")
    assert City.model_validate_json(result.output or "") == City(name="Oslo", people=7)


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


@pytest.mark.parametrize("streams", [True, False])
@pytest.mark.parametrize("reads", [True, False])
async def test_words_are_shown_once_and_who_reads_the_events_of_a_run_gets_them(streams: bool, reads: bool) -> None:
    read: list[str] = []

    async def reader(ctx: RunContext[Any], events: AsyncIterable[Any]) -> None:
        read.extend([type(event).__name__ async for event in events])

    async def words(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        yield "one "
        yield "two"

    def all_at_once(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return ModelResponse(parts=[TextPart("one two")])

    model = FunctionModel(stream_function=words) if streams else FunctionModel(all_at_once)
    served = hitl.stream(Agent(model, name="read", capabilities=[ProcessEventStream(reader)] * reads), "go")
    shown = [event.data["delta"]["content"] async for event in served if event.type == "message.delta"]
    assert served.result.output == "one two"
    assert "".join(shown) == "one two"
    assert ({"PartStartEvent", "FinalResultEvent"} <= set(read)) is reads


def test_what_is_compared_of_a_conversation_is_what_everybody_reads() -> None:
    messages: list[ModelMessage] = [
        ModelRequest(parts=[SystemPromptPart("It is Monday."), UserPromptPart("Look."), UserPromptPart(["at", "it"])]),
        ModelResponse(parts=[ThinkingPart("hm"), TextPart("I"), ToolCallPart("look", {"n": 1}, tool_call_id="c1")]),
        ModelRequest(
            parts=[
                ToolReturnPart("look", {"saw": [1]}, tool_call_id="c1"),
                RetryFeedbackPart("again", retry=RetryInfo("output_validator")),
            ]
        ),
        ModelResponse(parts=[]),
    ]
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"n":1}'}}
    system, *read = [each.to_dict() for each in to_chat(messages)]
    assert system == {"role": "system", "content": "It is Monday."}
    assert read == [
        {"role": "user", "content": "Look."},
        {"role": "user", "content": "at\nit"},
        {"role": "assistant", "content": "I", "reasoning": "hm", "tool_calls": [call]},
        {"role": "tool", "content": '{"saw":[1]}', "tool_call_id": "c1", "name": "look"},
        {"role": "user", "content": messages[2].parts[1].model_response()},
        {"role": "assistant"},
    ]
    assert compared(messages) == read


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


@pytest.mark.parametrize(
    ("headers", "waits"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after-ms": "20", "retry-after": "7"}, 0.02),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after": "nan"}, True),
        ({"retry-after": "inf"}, True),
        ({"retry-after": "soon"}, True),
        (None, True),
    ],
)
def test_a_model_says_when_it_may_be_asked_again(headers: dict[str, str] | None, waits: Any) -> None:
    judged = may_pass(ModelHTTPError(503, "m", headers=headers))
    assert (type(judged), judged) == (type(waits), waits)


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
