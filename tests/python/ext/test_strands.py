"""What agents of Strands may do in a turn, each from every prefix of its journal too."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic import BaseModel
from strands import Agent, ToolContext, tool
from strands.agent.conversation_manager import SlidingWindowConversationManager
from strands.hooks import AfterToolCallEvent, BeforeToolCallEvent
from strands.models import Model
from strands.session import FileSessionManager
from strands.telemetry.tracer import get_tracer
from strands.types.exceptions import ContextWindowOverflowException, ModelThrottledException
from strands.vended_interventions.hitl import HumanInTheLoop
from strands.vended_tools import stop

import hitl
from hitl import ChatMessage, RunState
from hitl.driver.shapes import as_agent as load
from hitl.errors import AgentLoadError
from hitl.ext.strands import as_agent
from hitl.ext.strands.messages import history_of, turn_of
from hitl.testing import HitlServer
from tests.python.ext.strands_runs import APPROVE, Speaking, payer, proved, proved_text, says
from tests.python.support.local import LocalTurn
from tests.python.support.prefixes import Effects

# -- runs --------------------------------------------------------------------------------------------------------------


async def test_a_tool_that_fails_is_told_to_the_model_and_to_hooks_that_may_want_it_again() -> None:
    def make(effects: Effects) -> Agent:
        @tool
        async def guess(number: int) -> str:
            """Guess."""
            effects.append(number)
            if len(effects) < 2:
                raise LookupError("higher")
            raise KeyError("lower")

        def again(event: AfterToolCallEvent) -> None:
            event.retry = isinstance(event.exception, LookupError) and "higher" in str(event.exception)

        return Agent(says([("guess", {"number": 1})]), name="guesser", tools=[guess], hooks=[again])

    agent = make(effects := [])
    result = await hitl.run(agent, "go")
    assert result.output == json.dumps([["error", "Error: KeyError - 'lower'"]])
    assert effects == [1, 1]


async def test_what_a_tool_leaves_in_its_agent_is_there_after_a_crash() -> None:
    def make(effects: Effects) -> Agent:
        @tool(context=True)
        def mark(tool_context: ToolContext, name: str) -> str:
            """Mark."""
            effects.append(name)
            tool_context.agent.state.set(name, {"marked": True})
            tool_context.agent.state.delete("fresh")
            return "marked"

        def look(event: BeforeToolCallEvent) -> None:
            if event.tool_use["name"] == "pay" and event.agent.state.get("a") != {"marked": True}:
                event.cancel_tool = "nothing is marked"

        agent = payer(effects, [("mark", {"name": "a"})], [("pay", {"cents": 1})], hooks=[look], state={"fresh": 1})
        agent.tool_registry.process_tools([mark])
        agent._intervention_registry.handlers[0]._allowed_tools.add("mark")
        return agent

    run, said = await proved(make, lambda asked: APPROVE)
    assert said == [["success", "marked"], ["success", "paid 1"]]
    history = history_of(run.state)
    assert history.state == {"a": {"marked": True}}


async def test_a_tool_may_end_the_run() -> None:
    def make(effects: Effects) -> Agent:
        calls = [("pay", {"cents": 1}), ("stop", {"reason": "done"})]
        handler = HumanInTheLoop(allowed_tools=["stop"])
        agent = payer(effects, calls, [("pay", {"cents": 2})], interventions=[handler])
        agent.tool_registry.process_tools([stop])
        return agent

    run = (await proved_text(make))[0]
    assert run.effects == [1]


@pytest.mark.parametrize("how", ["as a tool", "in a tool", "in a thread"])
async def test_a_nested_agent_asks_in_its_own_name_and_what_it_did_is_done_once(how: str) -> None:
    def make(effects: Effects) -> Agent:
        inner = payer(effects, [("pay", {"cents": 2}), ("pay", {"cents": 3})], name="inner")
        if how == "in a thread":
            inner._intervention_registry.handlers[0]._allowed_tools.add("pay")

        @tool
        async def ask(input: str) -> str:
            """Ask the inner agent."""
            return str(await inner.invoke_async(input))

        @tool
        def ask_blocking(input: str) -> str:
            """Ask the inner agent."""
            return str(inner(input))

        tools = {"as a tool": inner.as_tool(name="ask"), "in a tool": ask, "in a thread": ask_blocking}
        name = tools[how].tool_name
        calls = [(name, {"input": "a"})], [(name, {"input": "b"})]
        return Agent(says(*calls), name="outer", tools=[tools[how]])

    run, said = await proved(make, lambda asked: APPROVE)
    paid = json.dumps([["success", "paid 2"], ["success", "paid 3"]]) + "\n"
    assert said == [["success", paid]] * 2
    assert {asked["agent"] for asked in run.requests} == (set() if how == "in a thread" else {"inner"})
    if how != "in a thread":
        assert sorted(run.effects) == [2, 2, 3, 3]


async def test_a_turn_that_leaves_memory_does_so_at_once_and_without_errors(caplog: pytest.LogCaptureFixture) -> None:
    inner = payer([], name="inner")
    calls = [("inner", {"input": "a"}), ("pay", {"cents": 1})]
    outer = payer([], model=says(calls), interventions=[HumanInTheLoop(allowed_tools=["inner"])])
    outer.tool_registry.process_tools([inner])
    async with asyncio.timeout(4):  # less than what leftover tasks are given to clean up
        result = await hitl.run(outer, "go")
    assert sorted(asked.agent or "" for asked in result.interrupts) == ["inner", "payer"]
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []


async def test_a_reply_of_a_type_is_json() -> None:
    class City(BaseModel):
        name: str
        people: int

    def make(effects: Effects) -> Agent:
        calls = [("City", {"name": "Oslo", "people": 7}), ("pay", {"cents": 1})]
        handler = HumanInTheLoop(allowed_tools=["City"])
        return payer(effects, calls, structured_output_model=City, interventions=[handler])

    run, reply = await proved_text(make)
    assert City.model_validate_json(reply) == City(name="Oslo", people=7)
    assert run.effects == [1]


@pytest.mark.parametrize("how", ["context", "user_params", "function"])
async def test_invocation_state_is_what_the_turn_began_with(how: str) -> None:
    @tool(context=True)
    async def whose(tool_context: ToolContext) -> str:
        """Whose turn it is."""
        return str(tool_context.invocation_state["owner"])

    async def account(params: Any) -> dict[str, Any]:
        return {"owner": params["owner"].upper()}

    agent = Agent(says([("whose", {})]), name="bank", tools=[whose], interventions=[HumanInTheLoop()])
    served = as_agent(agent, invocation_state=account if how == "function" else None)
    given = {"owner": "ada"}
    message = ChatMessage.user_message(content="go", user_params=given if how == "user_params" else None)
    first = await hitl.run(served, message, context=None if how == "user_params" else given)
    state = RunState.from_string(served, first.state.to_string())
    result = await hitl.run(served, state.approve(state.interrupts[0]))
    assert result.output == json.dumps([["success", "ADA" if how == "function" else "ada"]])


@dataclass
class Account:
    owner: str


async def test_a_context_that_cannot_be_the_invocation_state_is_an_error() -> None:
    agent = payer([])
    result = await hitl.run(agent, "go", context=Account("ada"))
    assert "'payer' takes a dict as its invocation_state, and the context of the run is a Account" in str(result.error)
    served = as_agent(agent, invocation_state=lambda account: {"owner": account.owner})
    assert (await hitl.run(served, "go", context=Account("ada"))).status == "interrupted"


async def test_turns_of_one_agent_at_the_same_time_do_not_meet() -> None:
    agent = payer([])
    first, second = await asyncio.gather(hitl.run(agent, "one"), hitl.run(agent, "two"))
    assert (first.status, second.status) == ("interrupted", "interrupted")
    results = await asyncio.gather(
        hitl.run(agent, first.state.approve(first.interrupts[0])),
        hitl.run(agent, second.state.reject(second.interrupts[0])),
    )
    assert [result.output for result in results] == [
        json.dumps([["success", "paid 5"]]),
        json.dumps([["error", "User rejected pay"]]),
    ]
    assert agent.messages == []


# -- models ------------------------------------------------------------------------------------------------------------


async def test_what_a_model_says_is_shown_once_as_it_says_it(capsys: pytest.CaptureFixture[str]) -> None:
    def reply(messages: list[Any]) -> Any:
        return "one \ntwo" if any("toolResult" in each for each in messages[-1]["content"]) else [("pay", {"cents": 1})]

    shown: list[str] = []
    nested = Agent(Speaking(lambda messages: "hidden"), name="nested")
    agent = payer([], callback_handler=lambda **event: shown.append(event["data"]) if "data" in event else None)
    agent.model = Speaking(reply)
    agent.tool_registry.process_tools([nested])
    running = hitl.stream(agent, "go")
    first = [event.data["delta"] async for event in running if event.type == "message.delta"]
    state = running.result.state
    again = hitl.stream(agent, state.approve(state.interrupts[0]))
    later = [event.data["delta"] async for event in again if event.type == "message.delta"]
    assert (first, later) == ([], [{"content": "one \n"}, {"content": "two"}])
    assert shown == ["one \n", "two"]

    printing = Agent(Speaking(lambda messages: "secret"), name="printing")
    assert (await hitl.run(printing, "go")).output == "secret"
    assert capsys.readouterr().out == ""


async def test_usage_is_counted_over_all_agents_and_kept() -> None:
    result = await hitl.run(payer([]), "go")
    assert result.usage["requests"] == 1
    result = await hitl.run(payer([]), result.state.approve(result.interrupts[0]))
    assert (result.usage["requests"], result.usage["total_tokens"]) == (2, 10)


@pytest.mark.parametrize("error", [ModelThrottledException("busy"), ConnectionError("gone")], ids=["busy", "gone"])
async def test_a_model_that_is_away_suspends_the_turn_and_is_asked_again_when_it_is_retried(error: Exception) -> None:
    away = [True]

    def reply(messages: list[Any]) -> str:
        if away[0]:
            raise error
        return "back"

    served = as_agent(Agent(Speaking(reply), name="patient"), retries=0)
    result = await hitl.run(served, "go")
    assert (result.status, result.error_code) == ("error", "model_unavailable")
    away[0] = False
    assert (await hitl.run(served, result.state)).output == "back"


async def test_an_error_of_a_model_that_does_not_pass_is_the_turns() -> None:
    def reply(messages: list[Any]) -> str:
        raise PermissionError("no key")

    result = await hitl.run(Agent(Speaking(reply), name="keyless"), "go")
    assert (result.status, result.error) == ("error", "PermissionError: no key")


async def test_a_conversation_that_is_too_long_for_a_model_is_shortened_in_a_replay_too() -> None:
    asked: list[int] = []

    def reply(messages: list[Any]) -> Any:
        asked.append(len(messages))
        if len(messages) > 3:
            raise ContextWindowOverflowException("too much")
        return "done" if "toolResult" in messages[-1]["content"][0] else [("pay", {"cents": 1})]

    talk = [ChatMessage.user_message(content="a"), ChatMessage.assistant_message(content="b")] * 2

    def make(effects: Effects) -> Agent:
        manager = SlidingWindowConversationManager(window_size=4)
        return payer(effects, model=Speaking(reply), conversation_manager=manager)

    run, said = await proved_text(make, state=talk)
    assert (said, run.effects) == ("done", [1])
    assert asked[:4] == [5, 3, 5, 3]


async def test_a_prompt_that_says_what_time_it_is_is_not_compared() -> None:
    times = iter(range(1000))
    turns: list[Any] = []

    def make(effects: Effects) -> Agent:
        return payer(effects, system_prompt=f"It is {next(times)} o'clock.")

    run, _ = await proved(make, lambda asked: APPROVE, setup=turns.append)
    assert run.effects == [5]
    assert {warning for turn in turns for warnings in turn.port.replays for warning in warnings} == set()


async def test_what_a_guardrail_takes_back_stays_taken_back() -> None:
    class Guarded(Model):
        def get_config(self) -> Any:
            return {}

        def update_config(self, **model_config: Any) -> None: ...

        def structured_output(self, *args: Any, **kwargs: Any) -> Any: ...

        async def stream(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
            yield {"messageStart": {"role": "assistant"}}
            yield {"redactContent": {"redactUserContentMessage": "[blocked]"}}
            yield {"contentBlockStart": {"start": {}}}
            yield {"contentBlockDelta": {"delta": {"text": "no"}}}
            yield {"contentBlockStop": {}}
            yield {"messageStop": {"stopReason": "end_turn"}}

    run, reply = await proved_text(lambda effects: Agent(Guarded(), name="guarded"))
    assert reply == "no"
    assert history_of(run.state).messages[0]["content"] == [{"text": "[blocked]"}]


async def test_spans_of_what_is_replayed_are_exported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(get_tracer(), "tracer", provider.get_tracer("strands"))
    agent = payer([], [("pay", {"cents": 1})], [("pay", {"cents": 2})])
    result = await hitl.run(agent, "go")
    while result.status == "interrupted":
        result = await hitl.run(agent, result.state.approve(result.interrupts[0]))
    names = Counter(span.name.partition(" ")[0] for span in exporter.get_finished_spans())
    assert names == {"chat": 3, "execute_tool": 2, "execute_event_loop_cycle": 3, "invoke_agent": 1}


# -- conversations -----------------------------------------------------------------------------------------------------


def test_a_conversation_is_kept_in_the_frameworks_own_form(hitl_server: HitlServer) -> None:
    seen: list[list[Any]] = []

    def reply(messages: list[Any]) -> str:
        seen.append(messages)
        return f"reply {len(seen)}"

    server = hitl_server(
        Agent(Speaking(reply), name="thinker", messages=[{"role": "user", "content": [{"text": "made"}]}])
    )
    session = server.create_session(
        [ChatMessage.user_message(content="hello"), ChatMessage.assistant_message(content="hi")]
    )
    for content in ("one", "two"):
        server.send(content, session)
    state = server.client.get_messages(session.session_id)
    assert [message.content for message in state] == ["hello", "hi", "one", "reply 1", "two", "reply 2"]
    assert [message["content"][0]["text"] for message in seen[1]] == ["made", "hello", "hi", "one", "reply 1", "two"]


async def test_a_conversation_that_was_shortened_goes_on_from_what_is_left() -> None:
    seen: list[list[str]] = []

    def reply(messages: list[Any]) -> str:
        seen.append([message["content"][0]["text"] for message in messages])
        return f"reply {len(seen)}"

    agent = Agent(Speaking(reply), name="brief", conversation_manager=SlidingWindowConversationManager(window_size=2))
    async with hitl.Store("memory") as store:
        for content in ("one", "two", "three"):
            result = await hitl.run(agent, content, store=store, session="brief")
            assert result.status == "idle", result.error
    assert seen == [["one"], ["one", "reply 1", "two"], ["two", "reply 2", "three"]]
    assert [message.content for message in result.messages][-4:] == ["two", "reply 2", "three", "reply 3"]


def test_messages_that_were_taken_away_do_not_take_others_with_them() -> None:
    user = ChatMessage.user_message(content="one")
    made: list[Any] = [
        {"role": "user", "content": [{"text": "one"}]},
        {"role": "assistant", "content": [{"text": "done"}]},
    ]
    kept = turn_of(user, "done", before=[], after=made, added=made, state=None)
    assert history_of(kept).messages == made
    assert history_of([*kept, kept[-1]]).messages == [*made, *made]
    before = [ChatMessage.user_message(content="kept"), ChatMessage.assistant_message(content="too")]
    roles = [message["role"] for message in history_of([*before, *kept]).messages]
    assert roles == ["user", "assistant"] * 2


# -- others ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"checkpointing": True}, "has checkpointing"),
        ({"background_tasks": True}, "has background_tasks"),
    ],
)
def test_what_a_turn_cannot_keep_is_refused_before_the_first(options: Any, what: str) -> None:
    served: Any = load(Agent(says(), name="odd", **options)).target
    with pytest.raises(AgentLoadError, match=f"'odd' cannot be served: it {what}") as caught:
        served.prepare()
    assert "leave it out" in (caught.value.hint or "")


def test_an_agent_with_a_session_manager_of_its_own_is_refused_nested_too(tmp_path: Any) -> None:
    inner = Agent(says(), name="inner", session_manager=FileSessionManager("s", storage_dir=str(tmp_path)))
    outer: Any = load(Agent(says(), name="outer", tools=[inner.as_tool(preserve_context=True)])).target
    with pytest.raises(AgentLoadError, match="the agent 'inner' cannot be served: it has a session manager"):
        outer.prepare()


def test_outside_of_turns_everything_is_as_it_was() -> None:
    paid: list[Any] = []
    agent = payer(paid, callback_handler=None)
    as_agent(agent)
    asyncio.run(hitl_run(agent))
    result = agent("go")
    assert result.stop_reason == "interrupt"
    (asked,) = result.interrupts or ()
    result = agent([{"interruptResponse": {"interruptId": asked.id, "response": "y"}}])
    assert (result.stop_reason, paid) == ("end_turn", [5])
    assert len(agent.messages) == 4


async def hitl_run(agent: Agent) -> None:
    assert (await hitl.run(agent, "go")).status == "interrupted"


@pytest.mark.parametrize("arguments", [{"force": True}, {"force": "true"}, {"force": 1}, {}], ids=str)
async def test_rules_see_what_a_tool_would_run_with(arguments: dict[str, Any]) -> None:
    drops: list[Any] = []

    @tool
    def drop(force: bool = True) -> str:
        """Drop.

        Args:
            force: whatever is in the way.
        """
        drops.append(force)
        return "dropped"

    def rule(request: Any) -> Any:
        kind = "reject" if request["payload"]["tool_args"]["force"] is True else "approve"
        return {"type": kind, "by": "policy"}

    loaded = load(Agent(says([("drop", arguments)]), name="dropper", tools=[drop]))
    start = {"at": 1, "entry": "start", "code": "code-1", "python": "3.11", "policy": True}
    local = LocalTurn(agent=loaded.name, journal=[start])
    local.port.decide_at_once = rule
    await local.run(loaded.run, ChatMessage.user_message(content="go"), [])
    await local.end()
    assert drops == []


async def test_an_unnamed_agent_has_a_name_for_rules() -> None:
    assert load(Agent(says())).name == "agent"
    assert load(Agent(says(), name="mine")).name == "mine"
    assert as_agent(Agent(says(), name="mine"), name="yours").name == "yours"
