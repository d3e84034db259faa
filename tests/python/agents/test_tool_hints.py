"""Annotations as people write them, and what a tool makes of them."""
# ruff: noqa: RUF013  (that is what is tested)

from __future__ import annotations

import functools
from collections.abc import Generator, Iterable
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Annotated, Any

import pytest
from pydantic import BaseModel, BeforeValidator, Field

import hitl
from hitl import ChatMessage, ReActAgent, RunContext, tool
from hitl.testing import ScriptedChatClient
from hitl.tools.definition import Tool
from hitl.tools.schema import InvalidArguments

if TYPE_CHECKING:
    from decimal import Decimal
    from fractions import Fraction


def agent_with(made: Tool[..., Any], args: dict[str, Any]) -> ReActAgent:
    call = {"name": made.name, "args": args}
    return ReActAgent(client=ScriptedChatClient([{"tool_calls": [call]}, {"content": "done"}]), tools=[made])


# --- a default of None that the type does not take --------------------------------------------------------------------


class Place(BaseModel):
    street: str


def shout(text: str) -> str:
    return text.upper()


def _with_nones(**options: Any) -> Tool[..., Any]:
    @tool(**options)
    async def mail(
        to: str,
        cc: list[str] = None,  # type: ignore[assignment]
        day: date = None,  # type: ignore[assignment]
        note: Annotated[str, "what it is about", Field(min_length=2)] = None,  # type: ignore[assignment]
        size: int = Field(None, ge=1, description="how large"),  # type: ignore[assignment]
        loud: Annotated[str, BeforeValidator(shout)] = None,  # type: ignore[assignment]
        place: Place = None,  # type: ignore[assignment]
        either: int | None = None,
    ) -> str:
        return f"{to} {cc} {day} {note} {size} {loud} {place} {either}"

    return mail


async def test_a_gated_tool_with_defaults_of_none_is_asked_about_and_runs() -> None:
    agent = agent_with(_with_nones(requires_approval=True), {"to": "ann"})
    paused = await hitl.run(agent, "go")
    (asked,) = paused.interrupts
    others = ("cc", "day", "note", "size", "loud", "place", "either")
    assert asked.tool_args == {"to": "ann", **dict.fromkeys(others)}
    assert paused.state is not None
    done = await hitl.run(agent, paused.state.approve(asked))
    assert done.messages[-2].content == "ann None None None None None None None"


async def test_what_was_shown_of_it_may_be_edited_and_given_back() -> None:
    agent = agent_with(_with_nones(requires_approval=True), {"to": "ann"})
    paused = await hitl.run(agent, "go")
    (asked,) = paused.interrupts
    assert paused.state is not None
    assert asked.tool_args is not None
    done = await hitl.run(agent, paused.state.edit(asked, {**asked.tool_args, "to": "bob", "size": 2}))
    assert (done.messages[-2].content or "").startswith("bob None None None 2 None None None\n")


def test_the_model_is_shown_the_type_as_it_is_written_and_its_limits_hold() -> None:
    made = _with_nones()
    properties = made.parameters.json_schema["properties"]
    assert properties["cc"] == {"type": "array", "items": {"type": "string"}, "default": None}
    assert properties["note"] == {"type": "string", "minLength": 2, "default": None, "description": "what it is about"}
    assert made.check({"to": "a", "note": None, "size": None}).json["size"] is None
    for name, wrong in (("note", "x"), ("size", 0), ("cc", "x"), ("cc", [None]), ("place", {})):
        with pytest.raises(InvalidArguments, match=name):
            made.check({"to": "a", name: wrong})


class Note(BaseModel):
    text: str = None  # type: ignore[assignment]
    tags: list[str] = None  # type: ignore[assignment]


class Mail(Note):
    to: str
    notes: list[Note] = []
    by_name: dict[str, Note] = {}


@pytest.mark.parametrize("is_schema", [True, False])
async def test_nor_is_one_in_a_model_in_the_way_of_a_question(is_schema: bool) -> None:
    ran: list[Mail] = []

    @tool(requires_approval=True)
    async def nested(mail: Mail) -> None:
        ran.append(mail)

    @tool(schema=Mail, requires_approval=True)
    async def flat(**given: Any) -> None:
        ran.append(Mail.model_construct(**given))

    args: dict[str, Any] = {"to": "ann", "notes": [{"text": "x"}, {}], "by_name": {"a": {}}}
    agent = agent_with(flat, args) if is_schema else agent_with(nested, {"mail": args})
    paused = await hitl.run(agent, "go")
    (asked,) = paused.interrupts
    nothing = {"text": None, "tags": None}
    shown = {**nothing, "to": "ann", "notes": [{**nothing, "text": "x"}, nothing], "by_name": {"a": nothing}}
    assert asked.tool_args == (shown if is_schema else {"mail": shown})
    assert paused.state is not None
    assert (await hitl.run(agent, paused.state.approve(asked))).output == "done"
    assert [mail.model_dump(warnings="none") for mail in ran] == [shown]


# --- iterators -------------------------------------------------------------------------------------------------------


Held = Annotated[Iterable[int], Field(max_length=3)] | None


def _with_iterables(**options: Any) -> Tool[..., Any]:
    @tool(**options)
    async def add(
        tags: Iterable[str],
        sizes: Held = None,
        lines: Generator[str, None, None] = (),  # type: ignore[assignment]
        rows: dict[str, list[Iterable[int]]] = {},  # noqa: B006
    ) -> str:
        return f"{list(tags)} {sizes and list(sizes)} {list(lines)} {[*map(list, rows.get('a', []))]}"

    return add


@pytest.mark.parametrize("requires_approval", [True, False])
async def test_a_function_gets_all_that_an_iterable_is_given(requires_approval: bool) -> None:
    args = {"tags": ["a", "b"], "sizes": [1], "lines": ["x"], "rows": {"a": [[1, 2]]}}
    agent = agent_with(_with_iterables(requires_approval=requires_approval), args)
    result = await hitl.run(agent, "go")
    if requires_approval:
        assert [each.tool_args for each in result.interrupts] == [args]
        assert result.state is not None
        result = await hitl.run(agent, result.state.approve(result.interrupts[0]))
    assert result.messages[-2].content == "['a', 'b'] [1] ['x'] [[1, 2]]"


class Line(BaseModel):
    sizes: Iterable[int]
    others: list[Generator[str, None, None]] = []


@dataclass
class Sheet:
    lines: tuple[Line, ...]


async def total(line: Line, sheet: Sheet, lines: dict[str, Line]) -> str:
    held = [line, *sheet.lines, *lines.values()]
    return f"{[list(each.sizes) for each in held]} {[list(map(list, each.others)) for each in held]}"


class TotalArguments(BaseModel):
    line: Line
    sheet: Sheet
    lines: dict[str, Line]


@pytest.mark.parametrize("requires_approval", [True, False])
@pytest.mark.parametrize("schema", [None, TotalArguments], ids=["hints", "a model"])
async def test_so_it_does_of_one_inside_of_a_model(requires_approval: bool, schema: Any) -> None:
    given = {"sizes": [1, 2], "others": [["x"]]}
    args = {"line": given, "sheet": {"lines": [given]}, "lines": {"a": given}}
    made = tool(total, schema=schema, requires_approval=requires_approval)
    result = await hitl.run(agent_with(made, args), "go")
    if requires_approval:
        assert [each.tool_args for each in result.interrupts] == [args]
        assert result.state is not None
        result = await hitl.run(agent_with(made, args), result.state.approve(result.interrupts[0]))
    assert result.messages[-2].content == "[[1, 2], [1, 2], [1, 2]] [[['x']], [['x']], [['x']]]"


def test_what_it_holds_is_checked_before_anybody_is_asked() -> None:
    with pytest.raises(InvalidArguments, match=r"line\.sizes\.1: Input should be a valid integer"):
        tool(total).check({"line": {"sizes": [1, "x"]}, "sheet": {"lines": []}, "lines": {}})


def test_an_iterable_is_shown_and_checked_as_a_list() -> None:
    made = _with_iterables()
    assert made.parameters.json_schema["properties"]["tags"] == {"type": "array", "items": {"type": "string"}}
    assert made.check({"tags": ["a"]}).json == {"tags": ["a"], "sizes": None, "lines": [], "rows": {}}
    with pytest.raises(InvalidArguments, match=r"tags\.1"):
        made.check({"tags": ["a", 2]})


# --- names that only type checkers know ------------------------------------------------------------------------------


def test_what_it_returns_may_be_a_type_that_is_imported_for_checkers_alone() -> None:
    class Local(BaseModel):
        x: int

    @tool
    def price(item: str, at: Local, ctx: RunContext[Any]) -> Decimal:  # type: ignore[empty-body]
        """What it costs."""

    assert list(price.parameters.json_schema["properties"]) == ["item", "at"]
    assert price.check({"item": "hat", "at": {"x": 1}}).values["at"] == Local(x=1)


def test_of_a_parameter_that_is_still_an_error_which_names_it() -> None:
    @tool
    def price(item: Fraction) -> Decimal:  # type: ignore[empty-body]
        """What it costs."""

    with pytest.raises(TypeError, match="names 'Fraction', which is not defined"):
        _ = price.parameters


# --- what `functools.partial` fixes -----------------------------------------------------------------------------------


def transfer(cents: int, account: str, tags: Iterable[str] = (), day: date | None = None) -> str:
    return f"{cents} of {account} {list(tags)} {day}"


def _fixed(**options: Any) -> Tool[..., Any]:
    fixed = functools.partial(transfer, account="ann", tags=["a"], day=date(2024, 2, 29))
    return tool(fixed, name="transfer", **options)


async def test_what_a_partial_fixes_nobody_overwrites() -> None:
    made = _fixed(requires_approval=True)
    for name, value in (("account", "bob"), ("tags", []), ("day", None)):
        result = await hitl.run(agent_with(made, {"cents": 1, name: value}), "go")
        assert result.messages[-2].content == f'{{"error": "{name}: is fixed for this tool; leave it out"}}'


async def test_it_is_shown_and_may_be_given_back() -> None:
    agent = agent_with(_fixed(requires_approval=True), {"cents": 1, "account": "ann"})
    paused = await hitl.run(agent, "go")
    (asked,) = paused.interrupts
    assert asked.tool_args == {"cents": 1, "account": "ann", "tags": ["a"], "day": "2024-02-29"}
    assert paused.state is not None
    done = await hitl.run(agent, paused.state.edit(asked, {**asked.tool_args, "cents": 2}))
    assert (done.messages[-2].content or "").startswith("2 of ann ['a'] 2024-02-29\n")


def test_a_sentinel_that_it_fixes_nobody_overwrites() -> None:
    sentinel = object()

    def search(query: str, limit: Any) -> None: ...

    made = tool(functools.partial(search, limit=sentinel), name="search")
    assert made.check({"query": "q"}).json == {"query": "q"}
    with pytest.raises(InvalidArguments, match="limit: is fixed"):
        made.check({"query": "q", "limit": 3})


# --- strict types -----------------------------------------------------------------------------------------------------


class Booking(BaseModel, strict=True):
    day: date
    guests: tuple[str, ...] = ()
    tags: set[str] = set()


def _strict(**options: Any) -> Tool[..., Any]:
    @tool(**options)
    async def book(booking: Booking, nights: Annotated[int, Field(strict=True)] = 1) -> str:
        return f"{booking.day} {booking.guests} {sorted(booking.tags)} {nights}"

    return book


def _strict_schema(**options: Any) -> Tool[..., Any]:
    @tool(schema=Booking, **options)
    async def book(day: date, guests: tuple[str, ...], tags: set[str]) -> str:
        return f"{day} {guests} {sorted(tags)} 1"

    return book


@pytest.mark.parametrize("requires_approval", [True, False])
@pytest.mark.parametrize("is_schema", [True, False])
async def test_a_strict_type_takes_what_json_has_for_it(is_schema: bool, requires_approval: bool) -> None:
    args: dict[str, Any] = {"day": "2026-01-01", "guests": ["ann"], "tags": ["b", "a"]}
    make = _strict_schema if is_schema else _strict
    agent = agent_with(make(requires_approval=requires_approval), args if is_schema else {"booking": args})
    result = await hitl.run(agent, "go")
    if requires_approval:
        assert result.state is not None
        result = await hitl.run(agent, result.state.approve(result.interrupts[0]))
    assert result.messages[-2].content == "2026-01-01 ('ann',) ['a', 'b'] 1"


@pytest.mark.parametrize(
    "wrong",
    [
        {"booking": {"day": "2026-01-01", "guests": [1]}},
        {"booking": {"day": 1}},
        {"booking": {"day": "2026-01-01", "guests": ("ann", "bob"), "tags": ["a"]}},
        {"booking": {"day": "2026-01-01"}, "nights": "2"},
    ],
    ids=["another type", "no date", "from Python", "a number as text"],
)
def test_and_nothing_else(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidArguments):
        _strict().check(wrong)


# --- aliases ---------------------------------------------------------------------------------------------------------


def _one_more(sum_of: int) -> dict[str, Any]:
    return {"sum_of": sum_of + 1}


def _one_more_tag(tags: list[str]) -> None:
    tags.append("more")


def _aliased(**options: Any) -> Tool[..., Any]:
    @tool(**options)
    async def add(
        sum_of: Annotated[int, Field(alias="sumOf")],
        tags: Annotated[list[str], Field(alias="theTags")] = [],  # noqa: B006
        key: Annotated[str, Field(alias="theKey", default_factory=lambda: "made")] = ...,  # type: ignore[assignment]
        y: int = 2,
    ) -> str:
        return f"{sum_of} {tags} {key} {y}"

    return add


async def test_guardrails_and_python_call_a_parameter_by_its_name_and_the_model_by_its_alias() -> None:
    made = _aliased(requires_approval=True, input_guardrails=[_one_more, _one_more_tag])
    agent = agent_with(made, {"sumOf": 1, "theTags": ["a"]})
    paused = await hitl.run(agent, "go")
    (asked,) = paused.interrupts
    assert asked.tool_args == {"sumOf": 2, "theTags": ["a", "more"], "theKey": "made", "y": 2}
    assert paused.state is not None
    done = await hitl.run(agent, paused.state.approve(asked))
    assert done.messages[-2].content == "2 ['a', 'more'] made 2"

    async def calls(message: ChatMessage, state: list[ChatMessage]) -> Any:
        reply = ChatMessage.assistant_message(content=await _aliased().call(7, key="mine"))
        return reply, [*state, message, reply]

    assert (await hitl.run(calls, "go")).output == "7 [] mine 2"
    with pytest.raises(InvalidArguments, match="sum_of: given twice, as sumOf as well"):
        made.check({"sumOf": 1, "sum_of": 2})
