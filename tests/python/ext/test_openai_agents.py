"""What agents of the OpenAI Agents SDK may do in a turn, each from every prefix of its journal too."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from functools import partial
from typing import Any

import openai
import pytest
from agents import (
    Agent,
    GuardrailFunctionOutput,
    ModelResponse,
    ModelSettings,
    RunContextWrapper,
    Runner,
    RunState,
    ToolGuardrailFunctionOutput,
    ToolOutputText,
    Usage,
    function_tool,
    input_guardrail,
    set_tracing_disabled,
    tool_input_guardrail,
)
from agents.agent import StopAtTools
from agents.memory import SQLiteSession
from agents.testing import assistant_message
from pydantic import BaseModel

import hitl
from hitl import ChatMessage
from hitl.ext.openai_agents import as_agent, message_of
from hitl.ext.openai_agents.messages import history_of, to_chat, turn_of
from hitl.testing import HitlServer
from tests.python.ext.openai_agents_runs import APPROVE, Says, Streams, payer, proved
from tests.python.support.prefixes import Effects

ERROR = "An error occurred while running the tool. Please try again."
"""What the SDK tells a model."""


@dataclass
class Account:
    owner: str


@pytest.fixture(autouse=True)
def untraced() -> None:
    set_tracing_disabled(True)


# -- calls -------------------------------------------------------------------------------------------------------------


async def test_a_function_that_says_whether_a_call_needs_approval_is_asked_once() -> None:
    asked: list[int] = []

    def make(effects: Effects) -> Any:
        async def large(context: RunContextWrapper[Any], arguments: dict[str, Any], call_id: str) -> bool:
            asked.append(arguments["cents"])
            if arguments["cents"] == 7:
                raise LookupError("nobody knows")
            return bool(arguments["cents"] > 10)

        @function_tool(needs_approval=large)
        def spend(cents: int) -> str:
            effects.append(cents)
            return f"spent {cents}"

        return Agent(
            name="clerk",
            tools=[spend],
            model=Says([("spend", {"cents": 5}), ("spend", {"cents": 7})], [("spend", {"cents": 50})]),
        )

    result = await hitl.run(make([]), "go")
    assert [each.tool_args for each in result.interrupts] == [{"cents": 7}]
    result = await hitl.run(make([]), result.state.approve(result.interrupts[0]))
    result = await hitl.run(make([]), result.state.approve(result.interrupts[0]))
    assert (result.output, sorted(asked)) == ('["spent 5", "spent 7", "spent 50"]', [5, 7, 50])
    run, _ = await proved(make, lambda question: APPROVE)
    assert [each["payload"]["tool_args"] for each in run.requests] == [{"cents": 7}, {"cents": 50}]
    assert sorted(run.effects) == [5, 7, 50]


async def test_arguments_that_are_no_object_are_not_run_unless_the_tool_may_judge_them_itself() -> None:
    def make(effects: Effects, needs: bool) -> Any:
        @function_tool(needs_approval=needs)
        def pay(cents: int) -> str:
            effects.append(cents)
            return f"paid {cents}"

        return Agent(name="payer", tools=[pay], model=Says([("pay", "[1")]))  # type: ignore[list-item]

    run, said = await proved(partial(make, needs=True), lambda question: APPROVE)
    assert said == ["the arguments of this call are no JSON object, so nothing ran"]
    assert run.requests == run.effects == []
    run, said = await proved(partial(make, needs=False), lambda question: APPROVE)
    assert (said, run.requests, run.effects) == ([ERROR], [], [])


async def test_a_tool_that_fails_tells_the_model_or_fails_the_turn_as_it_says() -> None:
    def make(effects: Effects, **options: Any) -> Any:
        @function_tool(**options)
        def fail() -> str:
            effects.append("failed")
            raise LookupError("no such account")

        return Agent(name="failing", tools=[fail], model=Says([("fail", {})]))

    run, said = await proved(make)
    assert (said, run.effects) == ([ERROR], ["failed"])
    result = await hitl.run(make([], failure_error_function=None), "go")
    assert (result.status, "no such account" in (result.error or "")) == ("error", True)


async def test_what_a_tool_returns_reaches_the_model_as_without_hitl() -> None:
    @dataclass
    class Point:
        x: int

    @function_tool
    def look() -> Any:
        return [ToolOutputText(text="one"), ToolOutputText(text="two")]

    @function_tool
    def where() -> Any:
        return Point(3)

    @function_tool
    def none() -> Any:
        return None

    @function_tool
    def pair() -> Any:
        return 1, 2

    tools = [look, where, none, pair]

    def make(effects: Effects) -> Any:
        return Agent(name="a", tools=[*tools], model=Says([(each.name, {}) for each in tools]))

    plain = await Runner.run(make([]), "go")
    _, said = await proved(make)
    assert said == json.loads(plain.final_output)
    assert [part["text"] for part in said[0]] == ["one", "two"]


async def test_an_edit_is_told_to_the_model_after_all_results_and_stays_in_the_conversation() -> None:
    seen: list[Any] = []

    def make(effects: Effects) -> Any:
        agent = payer(effects)
        agent.model = Says([("pay", {"cents": 5}), ("pay", {"cents": 6})], seen=seen)
        return agent

    def answers(question: Any) -> Any:
        return {"type": "edit", "args": {"cents": 1}} if question["payload"]["tool_args"] == {"cents": 5} else APPROVE

    run, said = await proved(make, answers)
    assert (said, sorted(run.effects)) == (["paid 1", "paid 6"], [1, 6])
    note = '[A person changed the arguments of this call to {"cents":1}]'
    assert [item.get("content") for item in seen[1][-3:]] == [None, None, note]
    assert [message.content for message in run.state if message.role == "user"] == ["go", note]
    assert {"role": "user", "content": note} in history_of(run.state)


async def test_guardrails_of_a_tool_see_what_a_person_made_of_its_arguments() -> None:
    def make(effects: Effects) -> Any:
        @tool_input_guardrail
        def limit(data: Any) -> ToolGuardrailFunctionOutput:
            cents = json.loads(data.context.tool_arguments)["cents"]
            if cents > 100:
                return ToolGuardrailFunctionOutput.reject_content("too much")
            return ToolGuardrailFunctionOutput.allow()

        @function_tool(needs_approval=True, tool_input_guardrails=[limit])
        def pay(cents: int) -> str:
            effects.append(cents)
            return f"paid {cents}"

        return Agent(name="payer", tools=[pay], model=Says([("pay", {"cents": 5}), ("pay", {"cents": 6})]))

    def answers(question: Any) -> Any:
        given = question["payload"]["tool_args"]["cents"]
        return {"type": "edit", "args": {"cents": 500 if given == 5 else 7}}

    run, said = await proved(make, answers)
    assert (said, run.effects) == (["too much", "paid 7"], [7])


async def test_hooks_see_no_call_that_was_refused() -> None:
    from agents import RunHooks

    seen: list[str] = []

    class Hooks(RunHooks[Any]):
        async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
            seen.append(f"{agent.name} {tool.name}")

    agent = payer([], [("pay", {"cents": 5}), ("pay", {"cents": 6})])
    served = as_agent(agent, hooks=Hooks())
    result = await hitl.run(served, "go")
    state = result.state.reject(result.interrupts[0], message="no").approve(result.interrupts[1])
    result = await hitl.run(served, state)
    assert (result.output, seen) == ('["no", "paid 6"]', ["payer pay"])


async def test_an_agent_that_stops_at_a_tool_replies_with_its_result() -> None:
    agent = payer([], tool_use_behavior=StopAtTools(stop_at_tool_names=["pay"]))
    result = await hitl.run(agent, "go")
    state = result.state.edit(result.interrupts[0], {"cents": 9})
    assert (await hitl.run(agent, state)).output == "paid 9"


# -- guardrails, sessions, context -------------------------------------------------------------------------------------


async def test_a_guardrail_is_asked_once_and_its_own_agent_is_journaled() -> None:
    def make(effects: Effects) -> Any:
        judge = Agent(name="judge", model=Says(last="fine"))

        @input_guardrail
        async def polite(context: Any, agent: Any, input: Any) -> GuardrailFunctionOutput:
            said = await Runner.run(judge, input, context=context.context)
            effects.append("judged")
            return GuardrailFunctionOutput(output_info={"said": said.final_output}, tripwire_triggered=False)

        return payer(effects, input_guardrails=[polite])

    effects: Effects = []
    result = await hitl.run(make(effects), "go")
    result = await hitl.run(make(effects), result.state.approve(result.interrupts[0]))
    assert (result.output, effects) == ('["paid 5"]', ["judged", 5])


async def test_a_guardrail_that_trips_ends_the_turn_with_the_sdks_error() -> None:
    @input_guardrail
    def never(context: Any, agent: Any, input: Any) -> GuardrailFunctionOutput:
        return GuardrailFunctionOutput(output_info=None, tripwire_triggered=True)

    result = await hitl.run(payer([], input_guardrails=[never]), "go")
    assert result.status == "error"
    assert (result.error or "").startswith("InputGuardrailTripwireTriggered: ")


async def test_a_session_of_the_sdk_is_read_and_written_once(tmp_path: Any) -> None:
    path = tmp_path / "sessions.db"
    agent = payer([])
    served = as_agent(agent, session=lambda session_id: SQLiteSession("ann", path))
    first = await hitl.run(served, "go")
    await SQLiteSession("ann", path).add_items([{"role": "user", "content": "from elsewhere"}])
    result = await hitl.run(served, first.state.approve(first.interrupts[0]))
    assert (result.status, result.output) == ("idle", '["paid 5"]')
    items = await SQLiteSession("ann", path).get_items()
    kinds = [item.get("type") or item.get("content") for item in items]
    assert sorted(kinds) == ["from elsewhere", "function_call", "function_call_output", "go", "message"]
    seen: list[Any] = agent.model.seen  # type: ignore[union-attr]
    seen.clear()
    await hitl.run(served, "more")
    assert len(seen[0]) == len(items) + 1


@pytest.mark.parametrize("how", ["context", "user_params"])
async def test_the_context_is_made_anew_from_what_the_turn_began_with(how: str) -> None:
    made: list[Any] = []

    async def account(params: Any) -> Account:
        made.append(params)
        return Account(params["owner"])

    @function_tool(needs_approval=True)
    def pay(context: RunContextWrapper[Account]) -> str:
        return f"paid by {context.context.owner}"

    served = as_agent(Agent(name="bank", tools=[pay], model=Says([("pay", {})])), context=account)
    given = {"owner": "ada"}
    message = ChatMessage.user_message(content="go", user_params=given if how == "user_params" else None)
    first = await hitl.run(served, message, context=given if how == "context" else None)
    state = hitl.RunState.from_string(served, first.state.to_string())
    result = await hitl.run(served, state.approve(state.interrupts[0]))
    assert (result.output, made) == ('["paid by ada"]', [given, given])


# -- models ------------------------------------------------------------------------------------------------------------


async def test_what_a_model_says_is_shown_once_as_it_says_it() -> None:
    nested = Agent(name="nested", model=Streams(last="not shown"))
    agent = payer([])
    agent.tools = [*agent.tools, nested.as_tool("ask", "asks")]
    agent.model = Streams([("ask", {"input": "x"}), ("pay", {"cents": 5})], last="one two")
    running = hitl.stream(agent, "go")
    first = [event.data["delta"] async for event in running if event.type == "message.delta"]
    state = running.result.state
    again = hitl.stream(agent, state.approve(state.interrupts[0]))
    later = [event.data["delta"] async for event in again if event.type == "message.delta"]
    assert (first, later) == ([], [{"content": "one"}, {"content": " two"}])
    assert again.result.output == "one two"


async def test_a_run_whose_events_a_tool_reads_is_journaled_too() -> None:
    def make(effects: Effects) -> Any:
        inner = payer(effects)

        @function_tool
        async def watch() -> str:
            running = Runner.run_streamed(inner, "go")
            kinds = [event.type async for event in running.stream_events()]
            return f"{running.final_output} {'run_item_stream_event' in kinds}"

        return Agent(name="watcher", tools=[watch], model=Says([("watch", {})]))

    run, said = await proved(make, lambda asked: APPROVE)
    assert (said, run.effects) == (['["paid 5"] True'], [5])


async def test_usage_is_counted_over_all_agents_and_kept() -> None:
    nested = Agent(name="nested", model=Says(last="x"))
    agent = payer([], [("ask", {"input": "x"}), ("pay", {"cents": 5})], tools=[nested.as_tool("ask", "asks")])
    result = await hitl.run(agent, "go")
    assert (result.usage["requests"], result.usage["total_tokens"]) == (2, 14)
    result = await hitl.run(agent, result.state.approve(result.interrupts[0]))
    assert (result.usage["requests"], result.usage["total_tokens"]) == (3, 21)


class Away(Says):
    """A model that is not there until it is back."""

    back = False

    async def get_response(self, *asked: Any, **more: Any) -> ModelResponse:
        if not self.back:
            raise ConnectionError("nobody there")
        return ModelResponse(output=[assistant_message("back")], usage=Usage(requests=1), response_id=None)


@pytest.mark.parametrize("nested", [False, True], ids=["its own", "of an agent as a tool"])
async def test_a_model_that_is_away_suspends_the_turn_and_is_asked_again_when_it_is_retried(nested: bool) -> None:
    model = Away()
    agent = Agent(name="patient", model=model)
    if nested:
        agent = Agent(name="boss", tools=[agent.as_tool("ask", "asks")], model=Says([("ask", {"input": "x"})]))
    served = as_agent(agent, retries=0)
    result = await hitl.run(served, "go")
    assert (result.status, result.error_code) == ("error", "model_unavailable")
    model.back = True
    assert (await hitl.run(served, result.state)).output == ('["back"]' if nested else "back")


async def test_an_error_of_a_model_that_does_not_pass_is_the_turns() -> None:
    class Keyless(Says):
        async def get_response(self, *asked: Any, **more: Any) -> ModelResponse:
            import httpx2

            request = httpx2.Request("POST", "http://localhost")
            response = httpx2.Response(401, request=request)
            raise openai.AuthenticationError("no key", response=response, body=None)

    result = await hitl.run(Agent(name="keyless", model=Keyless()), "go")
    assert (result.status, "no key" in (result.error or "")) == ("error", True)


async def test_instructions_that_say_what_time_it_is_are_not_compared() -> None:
    times = iter(range(1000))

    def make(effects: Effects) -> Any:
        return payer(effects, instructions=lambda context, agent: f"It is {next(times)} o'clock.")

    turns: list[Any] = []
    await proved(make, lambda asked: APPROVE, setup=turns.append)
    assert {warning for turn in turns for warnings in turn.port.replays for warning in warnings} == set()


# -- conversations -----------------------------------------------------------------------------------------------------


async def test_an_output_type_is_the_reply_as_json() -> None:
    class City(BaseModel):
        name: str
        people: int

    agent = Agent(name="atlas", model=Says(last='{"name": "Oslo", "people": 7}'), output_type=City)
    result = await hitl.run(agent, "Which?")
    assert City.model_validate_json(result.output or "") == City(name="Oslo", people=7)
    assert [message.role for message in result.messages] == ["user", "assistant"]


def test_a_conversation_is_kept_in_the_sdks_own_form(hitl_server: HitlServer) -> None:
    seen: list[Any] = []

    class Thinker(Says):
        async def get_response(self, system_instructions: Any, input: Any, *asked: Any, **more: Any) -> ModelResponse:
            from openai.types.responses import ResponseReasoningItem

            seen.append(input)
            thought = ResponseReasoningItem(
                id="rs",
                type="reasoning",
                summary=[{"type": "summary_text", "text": "hm"}],
                encrypted_content="signed",  # type: ignore[list-item]
            )
            output = [thought, assistant_message(f"reply {len(seen)}")]
            return ModelResponse(output=output, usage=Usage(requests=1), response_id=None)

    server = hitl_server(Agent(name="thinker", model=Thinker()))
    session = server.create_session(
        [ChatMessage.user_message(content="hello"), ChatMessage.assistant_message(content="hi")]
    )
    for content in ("one", "two"):
        server.send(content, session)
    state = server.client.get_messages(session.session_id)
    assert [message.content for message in state] == ["hello", "hi", "one", "reply 1", "two", "reply 2"]
    assert state[3].reasoning == "hm"
    assert [item.get("type", item.get("role")) for item in seen[1]] == [
        "user",
        "assistant",
        "user",
        "reasoning",
        "message",
        "user",
    ]
    assert seen[1][3]["encrypted_content"] == "signed"


def test_messages_go_there_and_back() -> None:
    call: Any = {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    state = [
        ChatMessage.system_message(content="Be brief."),
        ChatMessage.user_message(content="see", base64_image="aGk="),
        ChatMessage.assistant_message(content="I look", tool_calls=[call]),
        ChatMessage.tool_message(content="seen", tool_call_id="c", name="look"),
        ChatMessage.assistant_message(content="done"),
    ]
    shown = to_chat(history_of(state))
    assert [(each.role, each.content, each.tool_calls) for each in shown] == [
        (each.role, each.content, each.tool_calls) for each in state
    ]
    assert history_of(state)[1]["content"][1]["image_url"] == "data:image/png;base64,aGk="
    made = [{"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"}]
    assert [each.role for each in turn_of(state[1], made, "end", "a")] == ["user", "assistant", "assistant"]


# -- the SDK's own pause -----------------------------------------------------------------------------------------------


async def test_a_state_of_the_sdk_is_taken_in_and_its_calls_are_answered_one_by_one() -> None:
    effects: Effects = []

    def make(effects: Effects) -> Any:
        return payer(effects, [("pay", {"cents": 5}), ("pay", {"cents": 6}), ("pay", {"cents": 7})])

    theirs = await Runner.run(make([]), "go")
    state = theirs.to_state()
    assert isinstance(state, RunState)
    state.approve(state.get_interruptions()[0])
    message = message_of(state.to_string())
    result = await hitl.run(make(effects), message)
    assert [each.tool_args for each in result.interrupts] == [{"cents": 6}, {"cents": 7}]
    assert effects == [5]
    result = await hitl.run(make(effects), result.state.edit(result.interrupts[1], {"cents": 1}))
    assert (len(result.interrupts), effects) == (1, [5, 1])
    result = await hitl.run(make(effects), result.state.reject(result.interrupts[0], message="no"))
    assert (result.output, effects) == ('["paid 5", "no", "paid 1"]', [5, 1])


async def test_outside_of_turns_everything_is_as_it_was() -> None:
    result = await Runner.run(payer([]), "go")
    assert [each.name for each in result.interruptions] == ["pay"]
    state = result.to_state()
    state.approve(state.get_interruptions()[0])
    assert (await Runner.run(payer([]), state)).final_output == '["paid 5"]'


async def test_many_turns_share_one_agent() -> None:
    agent = payer([])
    results = await asyncio.gather(*(hitl.run(agent, "go") for _ in range(3)))
    done = await asyncio.gather(*(hitl.run(agent, each.state.approve(each.interrupts[0])) for each in results))
    assert [each.output for each in done] == ['["paid 5"]'] * 3


@pytest.mark.parametrize("way", ["extra_args", "extra_body"])
async def test_a_reply_that_would_be_made_in_the_background_is_not_asked_for(way: str) -> None:
    """The SDK returns the response that only says that it is queued, without its status: an empty reply."""
    model = Says(last="done")
    settings = ModelSettings(**{way: {"background": True}})
    result = await hitl.run(Agent(name="a", model=model, model_settings=settings), "go")
    assert (result.status, result.error_code, model.seen) == ("error", "invalid_settings", [])
    assert "leave out background" in (result.error or "")
    settings = ModelSettings(**{way: {"background": False}})
    result = await hitl.run(Agent(name="a", model=model, model_settings=settings), "go")
    assert result.output == "done"
