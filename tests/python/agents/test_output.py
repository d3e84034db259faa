"""`output_type`: answers that are values, and what becomes of those that are none."""

from __future__ import annotations

import dataclasses
import json
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Discriminator, Field, RootModel, Tag, WithJsonSchema
from typing_extensions import TypeAliasType, TypedDict

import hitl
from hitl import ChatMessage, InvalidOutput, ReActAgent, RunState, tool
from hitl.models.wire import strict_schema
from hitl.testing import ScriptedChatClient
from tests.python.support.local import run_locally


class Point(BaseModel):
    x: int


@dataclasses.dataclass
class Order:
    id: str
    lines: list[Point]


class Parcel(TypedDict):
    grams: int


CASES: list[tuple[Any, str, Any]] = [
    (Point, '{"x": 1}', Point(x=1)),
    (Order, '{"id": "A", "lines": [{"x": 1}]}', Order("A", [Point(x=1)])),
    (Parcel, '{"grams": 3}', {"grams": 3}),
    (Point | Parcel, '{"result": {"grams": 3}}', {"grams": 3}),
    (list[Point], '{"result": [{"x": 1}, {"x": 2}]}', [Point(x=1), Point(x=2)]),
    (int, '{"result": 5}', 5),
    (bool, '{"result": false}', False),
    (Literal["yes", "no"], '{"result": "no"}', "no"),
    (Point | None, '{"result": null}', None),
]


@pytest.mark.parametrize(("wanted", "content", "value"), CASES, ids=lambda case: str(case)[:30])
async def test_the_output_of_a_run_is_of_the_type_that_was_asked_for(wanted: Any, content: str, value: Any) -> None:
    agent = ReActAgent(ScriptedChatClient([{"content": content}]), output_type=wanted)
    result = await hitl.run(agent, "go")
    assert result.status == "idle"
    assert (result.output, type(result.output)) == (value, type(value))
    assert result.response.content == content
    assert agent.response_format is not None
    schema = agent.response_format.schema
    assert schema["type"] == "object"  # what providers take


async def test_a_list_of_models_has_its_definitions_where_a_reader_of_the_schema_looks() -> None:
    schema = ReActAgent(output_type=list[Point]).response_format
    assert schema is not None
    assert schema.schema["properties"]["result"]["items"] == {"$ref": "#/$defs/Point"}
    assert "Point" in schema.schema["$defs"]


class Branch(BaseModel):
    leaves: list[Branch]


class Rows(RootModel["list[Rows]"]):
    """No object, and part of itself."""


Tree = TypeAliasType("Tree", "list[Tree]")


def test_a_type_that_is_part_of_itself_says_what_it_is_where_providers_look() -> None:
    schema = ReActAgent(output_type=Branch).response_format
    assert schema is not None
    assert (schema.schema["type"], "$ref" in schema.schema) == ("object", False)
    assert schema.schema["properties"]["leaves"]["items"] == {"$ref": "#/$defs/Branch"}
    assert strict_schema(schema.schema) is not None


@pytest.mark.parametrize(
    ("wanted", "value"), [(Tree, [[], [[]]]), (Rows, Rows.model_validate([[], [[]]]))], ids=["alias", "model"]
)
async def test_and_is_asked_for_in_an_object_where_it_is_none(wanted: Any, value: Any) -> None:
    agent = ReActAgent(ScriptedChatClient([{"content": '{"result": [[], [[]]]}'}]), output_type=wanted)
    schema = agent.response_format
    assert schema is not None
    assert schema.schema["type"] == "object"
    assert (await hitl.run(agent, "go")).output == value


class Card(BaseModel):
    kind: Literal["card"]
    number: str


class Cash(BaseModel):
    kind: Literal["cash"]


class Payment(BaseModel):
    way: Annotated[Card | Cash, Field(discriminator="kind")]


def test_one_of_several_that_a_word_tells_apart_is_asked_for_strictly() -> None:
    wanted = ReActAgent(output_type=Payment).response_format
    assert wanted is not None
    assert "oneOf" in wanted.schema["properties"]["way"]
    strict = strict_schema(wanted.schema)
    assert strict["properties"]["way"] == {
        "anyOf": [{"$ref": "#/$defs/Card"}, {"$ref": "#/$defs/Cash"}],
        "title": "Way",
    }
    assert strict["$defs"]["Cash"]["additionalProperties"] is False


class Pair(BaseModel):
    both: tuple[int, str]


class Bag(BaseModel):
    things: set[int]


def told_apart_by_code(value: Any) -> str:
    return "card" if "number" in value else "cash"


class Settled(BaseModel):
    way: Annotated[Annotated[Card, Tag("card")] | Annotated[Cash, Tag("cash")], Discriminator(told_apart_by_code)]


class Both(BaseModel):
    way: Annotated[Card, WithJsonSchema({"allOf": [{"type": "string"}, {"type": "string"}]})]


@pytest.mark.parametrize("wanted", [Pair, Bag, Settled, Both])
def test_what_the_api_has_no_strict_words_for_is_not_asked_for_strictly(wanted: Any) -> None:
    schema = ReActAgent(output_type=wanted).response_format
    assert schema is not None
    assert strict_schema(schema.schema) is None


class Parcels(BaseModel):
    first: Point = Field(description="where it stands")


def test_what_is_said_beside_a_reference_stands_beside_a_choice_of_one() -> None:
    wanted = ReActAgent(output_type=Parcels).response_format
    assert wanted is not None
    assert wanted.schema["properties"]["first"]["$ref"] == "#/$defs/Point"
    assert strict_schema(wanted.schema)["properties"]["first"] == {
        "anyOf": [{"$ref": "#/$defs/Point"}],
        "description": "where it stands",
    }


async def test_text_is_asked_for_by_no_schema() -> None:
    agent = ReActAgent(ScriptedChatClient([{"content": "hello"}]), output_type=str)
    assert agent.response_format is None
    assert (await hitl.run(agent, "go")).output == "hello"


@tool(requires_approval=True)
async def pay(cents: int) -> str:
    return f"paid {cents}"


async def test_the_output_is_a_value_after_a_pause_too_in_another_process() -> None:
    client = ScriptedChatClient([{"tool_calls": [{"name": "pay", "args": {"cents": 5}}]}, {"content": '{"x": 5}'}])
    agent = ReActAgent(client, tools=[pay], output_type=Point)
    waits = await hitl.run(agent, "go")
    assert waits.status == "interrupted"
    state = RunState.from_string(agent, waits.state.to_string())
    done = await hitl.run(agent, state.approve(state.interrupts[0]))
    assert done.output == Point(x=5)


async def test_whoever_has_the_conversation_says_what_the_output_is() -> None:
    client = ScriptedChatClient(
        [{"tool_calls": [{"name": "transfer_to_clerk", "args": {}}]}, {"content": '{"x": 1}'}, {"content": '{"x": 2}'}]
    )
    clerk = ReActAgent(client, name="clerk", output_type=Point)
    async with hitl.Store("memory") as store:
        for x in (1, 2):
            result = await hitl.run(ReActAgent(client, handoffs=[clerk]), "go", store=store, session="s")
            assert result.output == Point(x=x)


async def test_the_text_of_a_streamed_run_is_json_and_its_output_the_value() -> None:
    stream = hitl.stream(ReActAgent(ScriptedChatClient([{"content": '{"x": 1}'}]), output_type=Point), "go")
    said = "".join([event.delta.get("content", "") async for event in stream])
    assert (said, stream.result.output) == ('{"x": 1}', Point(x=1))


def test_over_http_the_answer_is_the_json_that_the_model_wrote(hitl_server: Any) -> None:
    agent = ReActAgent(ScriptedChatClient([{"content": '{"x": "one"}'}, {"content": '{"x": 1}'}]), output_type=Point)
    reply = hitl_server(agent).send("go")
    assert agent.parse(reply) == Point(x=1)
    assert reply.content == '{"x": 1}'


# -- what is no value ---------------------------------------------------------------------------------------------


async def test_the_model_hears_what_is_wrong_with_its_answer() -> None:
    client = ScriptedChatClient([{"content": "x is 1"}, {"content": '{"x": "one"}'}, {"content": '{"x": 1}'}])
    agent = ReActAgent(client, output_type=Point)
    result = await run_locally(agent, "go")
    assert agent.parse(result.response) == Point(x=1)
    complaints = [message.content or "" for message in result.state if message.role == "user"][1:]
    assert ["Invalid JSON" in complaints[0], "x: Input should be a valid integer" in complaints[1]] == [True, True]


@pytest.mark.parametrize(("most", "asked"), [(0, 1), (1, 2), (None, 3)])
async def test_it_is_told_so_often_and_no_oftener(most: int | None, asked: int) -> None:
    client = ScriptedChatClient([{"content": "no"}] * 9)
    agent = ReActAgent(client, output_type=Point, output_retries=most, name="clerk")
    result = await hitl.run(agent, "go")
    assert (result.status, result.error_code, result.output) == ("error", "invalid_output", None)
    assert isinstance(result.exception, InvalidOutput)
    assert "clerk was told" in (result.error or "")
    assert len(client.requests) == asked


async def test_the_old_name_is_bounded_by_the_steps_alone() -> None:
    client = ScriptedChatClient([{"content": "no"}] * 5 + [{"content": '{"x": 1}'}])
    agent = ReActAgent(client, response_format=Point)
    assert agent.parse((await run_locally(agent, "go")).response) == Point(x=1)


async def test_an_output_guardrail_may_not_make_it_something_else() -> None:
    def blunt(message: ChatMessage) -> str:
        return "hidden"

    client = ScriptedChatClient([{"content": '{"x": 1}'}])
    agent = ReActAgent(client, output_type=Point, output_guardrails=[blunt], name="clerk")
    with pytest.raises(InvalidOutput, match="an output guardrail of clerk changed its answer"):
        await run_locally(agent, "go")


async def test_what_an_agent_that_is_a_tool_answers_is_the_json_for_the_model_that_called_it() -> None:
    inner = ReActAgent(ScriptedChatClient([{"content": '{"result": [1, 2]}'}]), output_type=list[int], name="counter")
    outer = ScriptedChatClient([{"tool_calls": [{"name": "counter", "args": {"input": "go"}}]}, {"content": "done"}])
    result = await run_locally(ReActAgent(outer, tools=[inner.as_tool()]), "go")
    assert json.loads(result.state[2].content or "") == {"result": [1, 2]}


def test_what_cannot_be_an_output_type_is_refused_when_the_agent_is_made() -> None:
    with pytest.raises(TypeError, match="response_format is the old name of output_type; give one of them"):
        ReActAgent(output_type=Point, response_format=Point)
    with pytest.raises(TypeError, match="response_format 3 is no type that JSON can describe"):
        ReActAgent(response_format=3)
    with pytest.raises(TypeError, match="output_type 'object_of_mine' is no type that JSON can describe"):
        ReActAgent(output_type=type("object_of_mine", (), {}))
    with pytest.raises(ValueError, match="output_retries must be a whole number of 0 or more, got -1"):
        ReActAgent(output_type=Point, output_retries=-1)
    with pytest.raises(TypeError, match="has no output_type"):
        ReActAgent().parse(ChatMessage.assistant_message(content="{}"))
