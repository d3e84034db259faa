"""What is shown is what runs: a call whose JSON leaves something out is not put before anybody, and does not run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import pydantic
import pytest
from pydantic import AfterValidator, BaseModel, Field, PrivateAttr, SecretBytes, SecretStr, computed_field
from typing_extensions import TypedDict

from hitl import ChatMessage, ReActAgent, tool
from hitl.driver.shapes import as_agent
from hitl.testing import ScriptedChatClient
from hitl.tools.definition import Tool
from tests.python.support.local import Answers, LocalResult, LocalTurn, run_locally

APPROVE = {"type": "approve"}
PAYMENT = {"amount": 5, "to": "attacker"}


def agent_with(made: Tool[..., Any], args: Any) -> ReActAgent:
    script = [{"tool_calls": [{"name": made.name, "args": args, "id": "call_1"}]}, {"content": "done"}]
    return ReActAgent(client=ScriptedChatClient(script), tools=[made])


async def run_gated(made: Tool[..., Any], args: Any, answers: Answers = lambda asked: APPROVE) -> LocalResult:
    return await run_locally(agent_with(made, args), "go", answers=answers)


async def run_ruled(made: Tool[..., Any], args: Any) -> LocalResult:
    """In a turn that began under rules, none of which matches."""
    start = {"entry": "start", "at": 0, "code": "code-1", "python": "3.11", "policy": True}
    local = LocalTurn(journal=[start])
    message = ChatMessage.user_message(content="go")
    response, after = await local.run(as_agent(agent_with(made, args)).run, message, [])
    return LocalResult(response, after, local.port)


def told(result: LocalResult) -> str:
    return result.state[2].content or ""


def asked(result: LocalResult) -> list[Any]:
    return [interrupt.request for interrupt in result.port.interrupts]


class Excluding(BaseModel):
    amount: int
    to: str = Field("rent", exclude=True)


class Shortened(BaseModel):
    text: str

    @pydantic.field_serializer("text")
    def shorten(self, text: str) -> str:
        return text[:8]


class Remembering(BaseModel):
    amount: int
    _to: str = PrivateAttr("rent")

    @pydantic.model_validator(mode="before")
    @classmethod
    def take(cls, given: Any) -> Any:
        cls.last = given.pop("to", "rent") if isinstance(given, dict) else "rent"
        return given

    def model_post_init(self, context: Any) -> None:
        self._to = type(self).last


Remembering.last = "rent"  # type: ignore[attr-defined]

Short = Annotated[str, pydantic.PlainSerializer(lambda text: text[:8])]
LONG = "harmless and then rm -rf /"


def in_model(effects: list[Any], **options: Any) -> Tool[..., Any]:
    @tool(**options)
    async def act(p: Excluding) -> None:
        effects.append(p.to)

    return act


def as_schema(effects: list[Any], **options: Any) -> Tool[..., Any]:
    @tool(schema=Excluding, **options)
    async def act(amount: int, to: str) -> None:
        effects.append(to)

    return act


def in_parameter(effects: list[Any], **options: Any) -> Tool[..., Any]:
    @tool(**options)
    async def act(amount: int, to: Annotated[str, Field(exclude=True)] = "rent") -> None:
        effects.append(to)

    return act


def as_secret(effects: list[Any], **options: Any) -> Tool[..., Any]:
    @tool(**options)
    async def act(amount: int, to: SecretStr) -> None:
        effects.append(to.get_secret_value())

    return act


def by_serializer(effects: list[Any], **options: Any) -> Tool[..., Any]:
    @tool(**options)
    async def act(p: Shortened) -> None:
        effects.append(p.text)

    return act


def by_annotation(effects: list[Any], **options: Any) -> Tool[..., Any]:
    @tool(**options)
    async def act(items: dict[str, list[Short]]) -> None:
        effects.append(items)

    return act


def in_private(effects: list[Any], **options: Any) -> Tool[..., Any]:
    @tool(**options)
    async def act(p: Remembering) -> None:
        effects.append(p._to)

    return act


Make = Callable[..., Tool[..., Any]]

HIDING: list[Any] = [
    pytest.param(in_model, {"p": PAYMENT}, "p.to", id="an excluded field of a model"),
    pytest.param(as_schema, PAYMENT, "to", id="an excluded field of the schema"),
    pytest.param(in_parameter, PAYMENT, "to", id="an excluded parameter"),
    pytest.param(as_secret, PAYMENT, "to", id="a secret"),
]
LEAVING_OUT: list[Any] = [
    pytest.param(by_serializer, {"p": {"text": LONG}}, "p.text", id="a serializer of a field"),
    pytest.param(by_annotation, {"items": {"a": ["x", LONG]}}, "items.a.1", id="a serializer of a type"),
    pytest.param(in_private, {"p": PAYMENT}, "p._to", id="a private attribute"),
]


@pytest.mark.parametrize(("make", "args", "place"), HIDING)
def test_a_gated_tool_that_hides_an_argument_is_refused_where_it_is_made(make: Make, args: Any, place: str) -> None:
    with pytest.raises(TypeError, match=rf"needs approval, and {place} "):
        make([], requires_approval=True)
    with pytest.raises(TypeError, match=rf"needs approval, and {place} "):
        make([], requires_approval=lambda ctx, args: False)
    with pytest.raises(TypeError, match=rf"needs approval, and {place} "):
        tool(make([]), requires_approval=True)


@pytest.mark.parametrize(("make", "args", "place"), LEAVING_OUT)
async def test_a_gated_call_that_shows_less_than_would_run_asks_nobody_and_does_not_run(
    make: Make, args: Any, place: str
) -> None:
    effects: list[Any] = []
    for gate in (True, lambda ctx, args: False):
        result = await run_gated(make(effects, requires_approval=gate), args)
        assert effects == []
        assert asked(result) == []
        assert f"{place}: what is shown of it does not say what would run; act did not run" in told(result)


@pytest.mark.parametrize(("make", "args", "place"), HIDING + LEAVING_OUT)
async def test_nor_does_any_while_rules_exist(make: Make, args: Any, place: str) -> None:
    effects: list[Any] = []
    result = await run_ruled(make(effects), args)
    assert effects == []
    assert asked(result) == []
    assert f"{place}: what is shown of it " in told(result)


@pytest.mark.parametrize(("make", "args", "place"), HIDING + LEAVING_OUT)
async def test_a_call_that_nobody_judges_goes_on_working(make: Make, args: Any, place: str) -> None:
    effects: list[Any] = []
    await run_gated(make(effects), args)
    assert len(effects) == 1


async def test_what_a_serializer_leaves_as_it_is_may_be_asked_about() -> None:
    effects: list[Any] = []
    await run_gated(by_serializer(effects, requires_approval=True), {"p": {"text": "short"}})
    assert effects == ["short"]


async def test_an_edit_that_shows_less_than_would_run_does_not_run_and_is_asked_for_again() -> None:
    effects: list[Any] = []
    edit = {"type": "edit", "args": {"p": {"text": LONG}}}

    def person(asked: Any) -> Any:
        return edit if asked["message"] is None else {"type": "edit", "args": {"p": {"text": "other"}}}

    result = await run_gated(by_serializer(effects, requires_approval=True), {"p": {"text": "short"}}, person)
    assert effects == ["other"]
    said = "The answer was refused: p.text: what is shown of it does not say what would run; act did not run"
    assert [question["message"] for question in result.requests] == [None, said]


async def test_what_changes_out_of_sight_after_the_yes_does_not_run() -> None:
    effects: list[Any] = []
    kept: list[Remembering] = []

    def keep(p: Remembering) -> Remembering:
        kept.append(p)
        return p

    @tool(requires_approval=True)
    async def act(p: Annotated[Remembering, AfterValidator(keep)]) -> None:
        effects.append(p._to)

    def person(_: Any) -> Any:
        kept[0]._to = "attacker"
        return APPROVE

    result = await run_gated(act, {"p": {"amount": 5}}, person)
    assert effects == []
    assert "changed after they were approved" in told(result)


# --- what may be asked about, whatever it looks like ------------------------------------------------------------------


class Color(Enum):
    RED = "red"


@dataclass
class Point:
    x: int
    y: float = 0


class Options(TypedDict, total=False):
    depth: int


class Nested(BaseModel):
    folder: Path = "."  # type: ignore[assignment]
    factor: float = 1
    color: Color = "red"  # type: ignore[assignment]
    zip_code: Annotated[str, Field(alias="zip")] = "0"
    tags: list[str] = Field(default_factory=list)


class Totalled(BaseModel):
    parts: list[int]

    @computed_field  # type: ignore[prop-decorator]
    @property
    def total(self) -> int:
        return sum(self.parts)


def _everything() -> Tool[..., Any]:
    @tool(requires_approval=True)
    async def act(
        day: date,
        at: datetime,
        price: Decimal,
        path: Path,
        id: UUID,
        wait: timedelta,
        color: Color,
        point: Point,
        points: list[Point],
        options: Options,
        nested: Nested,
        totalled: Totalled,
        tags: set[str],
        pairs: tuple[tuple[str, int], ...],
        anything: Any,
        either: int | str | None,
        table: dict[int, float],
        where: Path = ".",  # type: ignore[assignment]
        amount: float = 0,
        frozen: set[str] = frozenset(),  # type: ignore[assignment]
    ) -> str:
        return f"{price} {at.astimezone(UTC):%H:%M} {sorted(tags)} {point}"

    return act


EVERYTHING = {
    "day": "2024-02-29",
    "at": "2024-02-29T12:00:00+02:00",
    "price": "1.10",
    "path": "/tmp/x",
    "id": "6f9619ff-8b86-4011-b42d-00c04fc964ff",
    "wait": 1.5,
    "color": "red",
    "point": {"x": 1},
    "points": [{"x": 1, "y": 2}],
    "options": {"depth": 3},
    "nested": {},
    "totalled": {"parts": [1, 2]},
    "tags": ["b", "a"],
    "pairs": [["a", 1]],
    "anything": {"a": [1, None, 0.5, "x"]},
    "either": "5",
    "table": {"1": 1},
}


async def test_ordinary_types_and_defaults_read_back_as_what_they_are() -> None:
    result = await run_gated(_everything(), EVERYTHING)
    assert told(result) == "1.10 10:00 ['a', 'b'] Point(x=1, y=0)"
    (request,) = asked(result)
    assert request["payload"]["tool_args"]["where"] == "."


# --- what is known to hide ------------------------------------------------------------------------------------------


class Inner(BaseModel):
    key: SecretBytes | None = None


class Tree(BaseModel):
    children: list[Tree] = []
    inner: dict[str, Inner] = {}


@dataclass
class Card:
    number: Annotated[str, Field(exclude=True)]


class Login(TypedDict):
    password: SecretStr


class Closed(Totalled):
    model_config = pydantic.ConfigDict(extra="forbid")


@pytest.mark.parametrize(
    ("hint", "named"),
    [
        (Tree, "p.inner.key is a SecretBytes"),
        (list[Card], "p.number is excluded"),
        (Login, "p.password is a SecretStr"),
        (pydantic.Json[list[int]], "p is Json"),
        (Closed | None, "p.total is computed, which Closed forbids"),
        (pydantic.Secret[int], "p is a Secret"),
    ],
)
def test_it_is_found_however_deep(hint: Any, named: str) -> None:
    async def act(p: Any) -> None: ...

    act.__annotations__["p"] = hint
    with pytest.raises(TypeError, match=named):
        tool(act, requires_approval=True)


# --- what no call could be shown with ---------------------------------------------------------------------------------


@dataclass
class Priced:
    cents: int
    shown: str = field(init=False, default="")


class Renamed(BaseModel):
    kind: str = Field(serialization_alias="type")


class RenamedDefault(BaseModel):
    kind: str = Field("hat", serialization_alias="type")


class Both(BaseModel):
    kind: str = Field(alias="type")


class Open(BaseModel):
    price: Priced


class Shut(Open):
    model_config = pydantic.ConfigDict(extra="forbid")


class Chosen(BaseModel):
    kind: str = Field(validation_alias=pydantic.AliasChoices("sort", "type"), serialization_alias="type")


@pytest.mark.parametrize(
    ("hint", "named"),
    [
        (Priced, "p.shown is shown and cannot be given, for Priced sets it"),
        (Annotated[Priced, "what it costs"], "p.shown is shown"),
        (Shut, "p.price.shown is shown"),
    ],
)
def test_a_gated_tool_of_which_no_call_could_pass_is_refused_where_it_is_made(hint: Any, named: str) -> None:
    async def act(p: Any) -> None: ...

    act.__annotations__["p"] = hint
    with pytest.raises(TypeError, match=named):
        tool(act, requires_approval=True)


@pytest.mark.parametrize(
    ("hint", "given"),
    [
        (list[Priced], []),
        (Renamed, {"kind": "hat"}),
        (RenamedDefault, {}),
        (Both, {"type": "hat"}),
        (Chosen, {"sort": "hat"}),
        (Open, {"price": {"cents": 1}}),
    ],
)
async def test_but_not_one_of_which_some_may(hint: Any, given: Any) -> None:
    async def act(p: Any) -> str:
        return "acted"

    act.__annotations__["p"] = hint
    result = await run_gated(tool(act, requires_approval=True), {"p": given})
    assert told(result) == "acted"
