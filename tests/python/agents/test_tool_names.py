"""Parameters and fields that are written under another name than they are read by: what is shown of them is called as
the schema calls it, so that it can be given back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from pydantic import AliasChoices, BaseModel, Field, RootModel, computed_field, field_serializer
from pydantic.dataclasses import dataclass as pydantic_dataclass

from hitl import _core, tool
from hitl.driver.shapes import as_agent
from hitl.messages import ChatMessage
from hitl.tools import schema
from hitl.tools.definition import Tool
from tests.python.agents.test_shown import APPROVE, agent_with, asked, run_gated, run_ruled, told
from tests.python.support.local import LocalTurn

Make = Callable[..., Tool[..., Any]]


class Sum(BaseModel):
    cents: int = Field(validation_alias="amount")


class Default(BaseModel):
    cents: int = Field(3, validation_alias=AliasChoices("amount", "sum"))


class Written(BaseModel):
    cents: int = Field(serialization_alias="amount")


class Swapped(BaseModel):
    cents: int = Field(validation_alias="euros")
    euros: int = Field(validation_alias="cents")


class Authored(BaseModel):
    cents: int = Field(validation_alias="amount")

    @field_serializer("cents")
    def write(self, cents: int) -> int:
        return cents


class Sums(RootModel[list[Sum]]):
    pass


@pydantic_dataclass
class Kept:
    cents: Annotated[int, Field(validation_alias="amount")]


@dataclass
class Holder:
    sum: Sum


class Pair(BaseModel):
    by_name: dict[str, Sum] = Field(validation_alias="byName")
    sizes: set[int] = Field(validation_alias="theSizes")


FIVE = {"amount": 5}

TYPES: list[tuple[Any, Any]] = [
    (Annotated[int, Field(validation_alias="amount")], 5),
    (Annotated[int, Field(serialization_alias="amount")], 5),
    (Sum, FIVE),
    (Sum | None, FIVE),
    (list[Sum], [FIVE]),
    (Default, FIVE),
    (Written, {"cents": 5}),
    (Swapped, {"euros": 5, "cents": 6}),
    (Authored, FIVE),
    (Sums, [FIVE]),
    (Kept, FIVE),
    (Holder, {"sum": FIVE}),
    (Pair, {"byName": {"a": FIVE}, "theSizes": [10, 9]}),
]


def of_hints(hint: Any, **options: Any) -> Tool[..., Any]:
    async def act(p: Any) -> str:
        return "acted"

    act.__annotations__["p"] = hint
    return tool(act, **options)


def of_a_model(hint: Any, **options: Any) -> Tool[..., Any]:
    class Given(BaseModel):
        p: hint

    @tool(schema=Given, **options)
    async def act(p: Any) -> str:
        return "acted"

    return act


BOTH = pytest.mark.parametrize("make", [of_hints, of_a_model], ids=lambda it: it.__name__)
EACH = pytest.mark.parametrize(("hint", "given"), TYPES, ids=lambda it: getattr(it, "__name__", None))


def _kept(p: int) -> None:
    """A guardrail that changes nothing."""


def arguments(made: Tool[..., Any], value: Any) -> dict[str, Any]:
    """What a model writes who was told the schema."""
    (name,) = made.parameters.json_schema["properties"]
    return {name: value}


@BOTH
@EACH
async def test_a_person_sees_the_names_of_the_schema_and_gives_what_was_shown_back(
    make: Make, hint: Any, given: Any
) -> None:
    made = make(hint, requires_approval=True)
    approved = await run_gated(made, arguments(made, given))
    assert told(approved) == "acted"
    (question,) = asked(approved)
    shown = question["payload"]["tool_args"]
    assert list(shown) == list(made.parameters.json_schema["properties"])
    assert _core.validate(question["args_schema"], shown) == []
    edited = await run_gated(made, arguments(made, given), lambda asked: {"type": "edit", "args": shown})
    assert (told(edited).partition("\n")[0], len(asked(edited))) == ("acted", 1)


@BOTH
@EACH
async def test_so_do_rules(make: Make, hint: Any, given: Any) -> None:
    made = make(hint)
    ruled = await run_ruled(made, arguments(made, given))
    assert told(ruled) == "acted"
    (question,) = asked(ruled)
    assert _core.validate(made.edit_schema, question["payload"]["tool_args"]) == []


def test_a_name_that_something_else_has_is_left_to_it() -> None:
    class Taken(BaseModel):
        cents: int = Field(validation_alias="amount")

        @computed_field  # type: ignore[prop-decorator]
        @property
        def amount(self) -> int:
            return -1

    assert of_hints(Taken).check({"p": {"amount": 5}}).json == {"p": {"cents": 5, "amount": -1}}


@pytest.mark.parametrize(
    "made",
    [
        of_hints(Sum),
        of_hints(Sum, requires_approval=True),
        of_a_model(Annotated[Sum, Field(validation_alias="total")], requires_approval=True),
        of_hints(Annotated[int, Field(validation_alias="amount")]),
        of_hints(Annotated[int, Field(validation_alias="amount")], input_guardrails=[_kept]),
    ],
    ids=["not gated", "gated", "gated, of a model", "a parameter", "a parameter with a guardrail"],
)
async def test_a_turn_that_was_parked_by_a_release_before_goes_on(
    made: Tool[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which wrote what it had shown, and the arguments of its steps, by the names of pydantic's writing."""
    (name,) = made.parameters.json_schema["properties"]
    given = {name: 5 if name == "amount" else FIVE}
    agent, message = as_agent(agent_with(made, given)), ChatMessage.user_message(content="go")
    with monkeypatch.context() as before:
        for kind in (schema.FunctionParameters, schema.ModelParameters):
            before.setattr(kind, "write", _as_before(kind.write))
        first = LocalTurn(lambda asked: APPROVE)
        came_of = await first.run(agent.run, message, [])
        await first.end()
    if first.port.interrupts:
        assert first.port.interrupts[0].request["payload"]["tool_args"] == {name: {"cents": 5}}
    for cut in range(1, len(first.port.journal)):
        if first.port.journal[cut - 1]["entry"] != "intent":  # else a person is asked what came of it
            again = LocalTurn(lambda asked: APPROVE, journal=first.port.journal[:cut])
            assert await again.run(agent.run, message, []) == came_of
            await again.end()


def _as_before(write: Callable[..., tuple[Any, Any]]) -> Callable[..., tuple[Any, Any]]:
    return lambda parameters, values: (write(parameters, values)[0],) * 2
