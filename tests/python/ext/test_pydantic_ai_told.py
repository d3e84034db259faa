"""What agents of pydantic-ai are told of a turn that was given up, from every prefix of the journal too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pydantic_ai import Agent, ModelMessage, ModelResponse, TextPart
from pydantic_ai.capabilities import ProcessHistory
from pydantic_ai.messages import ModelRequestPart, ModelResponsePart, ToolCallPart, repair_messages
from pydantic_ai.models.function import AgentInfo, FunctionModel

from hitl import ChatMessage
from hitl.driver.shapes import as_agent as load
from hitl.ext.pydantic_ai.backend import read_result
from hitl.ext.pydantic_ai.messages import history_of
from tests.python.ext.proof import GIVEN_UP
from tests.python.ext.pydantic_ai_runs import Timeless
from tests.python.support.local import LocalTurn
from tests.python.support.prefixes import Effects, run_all_prefixes

TOLD = [("user-prompt", "Pay five."), ("tool-call", "pay"), ("tool-return", "told"), ("user-prompt", "Did you?")]
ONLY_ASKED: Any = {"turns": [{**GIVEN_UP["turns"][0], "replies": []}]}


def parts_of(messages: list[ModelMessage]) -> Iterator[tuple[str, Any]]:
    parts: list[ModelRequestPart | ModelResponsePart] = [part for message in messages for part in message.parts]
    for part in parts:
        yield part.part_kind, part.tool_name if isinstance(part, ToolCallPart) else getattr(part, "content", None)


async def test_a_conversation_that_begins_with_it_has_the_system_prompt_and_goes_on_so() -> None:
    seen: list[list[tuple[str, Any]]] = []

    def reply(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        seen.append(list(parts_of(messages)))
        return ModelResponse(parts=[TextPart("Yes.")])

    def make(effects: Effects) -> Any:
        return Timeless(Agent(FunctionModel(reply), name="payer", system_prompt="Be brief."))

    run = await run_all_prefixes(make, None, message="Did you?", journal_start={"abandoned": GIVEN_UP})
    assert seen[0] == [("system-prompt", "Be brief."), *TOLD]
    assert [message.content for message in run.state] == ["Pay five.", None, "told", "Did you?", "Yes."]
    # Without the system prompt, which `Timeless` takes out.
    assert list(parts_of(history_of(run.state))) == [*TOLD, ("text", "Yes.")]


PROCESSORS: list[Any] = [
    pytest.param(lambda messages: messages[-5:], id="the last five"),
    pytest.param(lambda messages: messages[-1:], id="the last one"),
    pytest.param(lambda messages: repair_messages(messages), id="merged"),
]


@pytest.mark.parametrize("processor", PROCESSORS)
@pytest.mark.parametrize("number", [0, 3], ids=["at first", "later"])
@pytest.mark.parametrize("given_up", [GIVEN_UP, ONLY_ASKED], ids=["paid", "only asked"])
async def test_a_conversation_whose_history_is_processed_has_it_from_then_on(
    processor: Any, number: int, given_up: Any
) -> None:
    def reply(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return ModelResponse(parts=[TextPart("Yes.")])

    agent = Agent(FunctionModel(reply), name="payer", capabilities=[ProcessHistory(processor)])
    loaded, state = load(agent), list[ChatMessage]()
    for turn_number in range(number + 2):
        entry: Any = {"at": 1, "entry": "start", "code": "code-1", "python": "3.11"}
        more = {"abandoned": given_up} if turn_number == number else {}
        turn = LocalTurn(agent=loaded.name, turn_id=f"turn-{turn_number}", journal=[{**entry, **more}])
        _, state = await turn.run(loaded.run, ChatMessage.user_message(content=f"Q{turn_number}"), state)
        await turn.end()
    told = TOLD[:-1] if given_up is GIVEN_UP else TOLD[:1]
    expected: list[tuple[str, Any]] = []
    for turn_number in range(number + 2):
        expected += [*(told if turn_number == number else ()), ("user-prompt", f"Q{turn_number}"), ("text", "Yes.")]
    assert list(parts_of(history_of(state))) == expected


async def test_a_system_prompt_is_kept_where_a_processor_takes_the_beginning_away() -> None:
    def reply(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return ModelResponse(parts=[TextPart("Yes.")])

    processed = ProcessHistory[None](lambda messages: messages[-3:])
    loaded = load(Agent(FunctionModel(reply), name="payer", system_prompt="Be brief.", capabilities=[processed]))
    turn = LocalTurn(agent=loaded.name, journal=[{"at": 1, "entry": "start", "code": "code-1", "abandoned": GIVEN_UP}])
    _, state = await turn.run(loaded.run, ChatMessage.user_message(content="Did you?"), [])
    await turn.end()
    assert list(parts_of(history_of(state))) == [("system-prompt", "Be brief."), *TOLD, ("text", "Yes.")]


def test_of_a_record_of_the_framework_s_the_model_is_told_what_it_would_have_been() -> None:
    def wire(**members: Any) -> Any:
        return read_result({"pydantic_ai": members})

    assert read_result({"paid": 5}) == {"paid": 5}
    assert wire(kind="model_retry", message="not five") == "not five"
    whole = {"kind": "tool-return", "return_value": "paid", "content": None, "metadata": {"secret": 1}}
    assert wire(kind="tool_return", result=whole) == "paid"
    assert wire(kind="tool_return", result={"pydantic_ai": 1}) == {"pydantic_ai": 1}
