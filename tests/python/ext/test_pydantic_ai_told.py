"""What agents of pydantic-ai are told of a turn that was given up, from every prefix of the journal too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic_ai import Agent, ModelMessage, ModelResponse, TextPart
from pydantic_ai.messages import ModelRequestPart, ModelResponsePart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from hitl.ext.pydantic_ai.backend import read_result
from hitl.ext.pydantic_ai.messages import history_of
from tests.python.ext.proof import GIVEN_UP
from tests.python.ext.pydantic_ai_runs import Timeless
from tests.python.support.prefixes import Effects, run_all_prefixes


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
    told = [("user-prompt", "Pay five."), ("tool-call", "pay"), ("tool-return", "told"), ("user-prompt", "Did you?")]
    assert seen[0] == [("system-prompt", "Be brief."), *told]
    assert [message.content for message in run.state] == ["Pay five.", None, "told", "Did you?", "Yes."]
    # Without the system prompt, which `Timeless` takes out.
    assert list(parts_of(history_of(run.state))) == [*told, ("text", "Yes.")]


def test_of_a_record_of_the_framework_s_the_model_is_told_what_it_would_have_been() -> None:
    def wire(**members: Any) -> Any:
        return read_result({"pydantic_ai": members})

    assert read_result({"paid": 5}) == {"paid": 5}
    assert wire(kind="model_retry", message="not five") == "not five"
    whole = {"kind": "tool-return", "return_value": "paid", "content": None, "metadata": {"secret": 1}}
    assert wire(kind="tool_return", result=whole) == "paid"
    assert wire(kind="tool_return", result={"pydantic_ai": 1}) == {"pydantic_ai": 1}
