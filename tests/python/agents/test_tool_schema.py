"""What a model is told about a tool, and which arguments get through."""

from __future__ import annotations

import sys
from datetime import date
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict

import pytest
from pydantic import AliasChoices, BaseModel, Field

import hitl
from hitl import ReActAgent, RunContext, _core, tool
from hitl.testing import ScriptedChatClient
from hitl.tools.schema import InvalidArguments, parse_arguments


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Address(BaseModel):
    street: str
    zip_code: Annotated[str, Field(alias="zip")]


def test_hints_and_docstring_become_the_definition() -> None:
    @tool
    def move(source: str, target: Path, count: int = 1, mode: Literal["copy", "move"] = "move") -> None:
        """Move files.

        Keeps their times.

        Args:
            source: Where they are.
            target: Where they go, which
                must exist.

        Returns:
            Nothing of interest.
        """

    function = move.definition["function"]
    assert function["name"] == "move"
    assert function["description"] == "Move files.\n\nKeeps their times."
    assert function["parameters"] == {
        "type": "object",
        "additionalProperties": False,
        "required": ["source", "target"],
        "properties": {
            "source": {"type": "string", "description": "Where they are."},
            "target": {"type": "string", "format": "path", "description": "Where they go, which must exist."},
            "count": {"type": "integer", "default": 1},
            "mode": {"type": "string", "enum": ["copy", "move"], "default": "move"},
        },
    }


def test_descriptions_beside_types_win_over_the_docstring() -> None:
    @tool
    def find(
        a: Annotated[str, "said beside a"],
        b: Annotated[int, Field(description="said in Field", ge=1)],
        c: str = Field("x", description="said as default"),
    ) -> None:
        """Find.

        Args:
            a: from the docstring
            b: from the docstring
            c: from the docstring
        """

    properties = find.parameters.json_schema["properties"]
    assert [properties[name]["description"] for name in "abc"] == ["said beside a", "said in Field", "said as default"]
    assert properties["b"]["minimum"] == 1
    assert find.check({"a": "1", "b": 1}).json == {"a": "1", "b": 1, "c": "x"}


def test_names_that_pydantic_keeps_for_itself_are_ordinary_parameters() -> None:
    @tool
    def odd(schema: str, copy: int, _private: bool, model_config: str = "m") -> None: ...

    given = {"schema": "s", "copy": 1, "_private": True}
    assert odd.check(given).json == {**given, "model_config": "m"}


def test_arguments_have_a_python_face_and_a_json_face() -> None:
    @tool
    def book(day: date, color: Color, address: Address, tags: set[str] = frozenset()) -> None: ...  # type: ignore[assignment]

    given = {"day": "2024-02-29", "color": "red", "address": {"street": "A", "zip": "1"}, "tags": ["x"]}
    arguments = book.check(given)
    assert arguments.values["day"] == date(2024, 2, 29)
    assert arguments.values["color"] is Color.RED
    assert arguments.values["address"].zip_code == "1"
    assert arguments.json == given
    assert book.parameters.to_json(arguments.values) == given
    assert book.check(arguments.values).json == given


def test_every_default_is_among_the_arguments_a_person_sees() -> None:
    @tool
    def delete(path: str, recursive: bool = False) -> None: ...

    assert delete.check({"path": "/x"}).json == {"path": "/x", "recursive": False}


def test_a_default_that_is_no_json_stays_in_python() -> None:
    sentinel = object()

    @tool(schema=None)
    def search(query: str, limit: Any = sentinel) -> None: ...

    assert search.check({"query": "q"}).json == {"query": "q"}
    assert search.check({"query": "q", "limit": 3}).json == {"query": "q", "limit": 3}


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({}, "a: Field required; b: Field required"),
        ({"a": "x", "b": "y"}, "b: Input should be a valid integer"),
        ({"a": "x", "b": 1, "c": 2}, "c: Extra inputs are not permitted"),
        ({"a": None, "b": 1}, "a: Input should be a valid string"),
        ({"a": 5, "b": 1}, "a: Input should be a valid string"),
    ],
)
def test_wrong_arguments_are_named_one_by_one(given: dict[str, Any], complaint: str) -> None:
    @tool
    def f(a: str, b: int) -> None: ...

    with pytest.raises(InvalidArguments, match=complaint):
        f.check(given)


def test_a_number_written_as_text_is_a_number() -> None:
    @tool
    def f(count: int) -> None: ...

    assert f.check({"count": "3"}).values == {"count": 3}


@pytest.mark.parametrize(
    ("raw", "complaint"),
    [
        ("{bad", "not valid JSON"),
        ("[1]", "must be a JSON object, got an array"),
        ("null", "must be a JSON object, got null"),
        ('{"a": NaN}', "NaN is not JSON"),
        ("[" * 100_000, "nested too deeply"),
        ('{"a":' * 111 + "1" + "}" * 111, "nests deeper than 110 levels"),
        ('{"path": "/tmp/x", "path": "/etc"}', "path: is there more than once"),
        ('{"a": [{"b": 1, "\\u0062": 2}]}', "a.0.b: is there more than once"),
        ('{"n": 18446744073709551616}', "n: 18446744073709551616 would be read as another number"),
        ('{"n": 0.1234567890123456789012345}', "n: 0.1234567890123456789012345 would be read as another number"),
    ],
)
def test_arguments_that_are_no_json_object_say_what_they_are(raw: str, complaint: str) -> None:
    with pytest.raises(InvalidArguments, match=complaint):
        parse_arguments(raw)


def test_no_text_at_all_means_no_arguments() -> None:
    assert parse_arguments("") == parse_arguments(" \n") == parse_arguments("{}") == {}


def test_a_run_context_parameter_is_hidden_however_it_is_annotated() -> None:
    @tool
    def plain(path: str, ctx: RunContext) -> None: ...  # type: ignore[type-arg]

    @tool
    def typed(ctx: RunContext[dict[str, int]], path: str) -> None: ...

    @tool
    def optional(path: str, ctx: RunContext[Any] | None = None) -> None: ...

    for made in (plain, typed, optional):
        assert list(made.parameters.json_schema["properties"]) == ["path"]
        with pytest.raises(InvalidArguments, match="Extra inputs"):
            made.check({"path": "x", "ctx": {}})


def test_a_json_schema_in_place_of_hints_is_what_the_model_sees_and_what_is_checked() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}, "required": ["n"]}

    @tool(schema=schema)
    def f(**arguments: Any) -> None: ...

    schema["required"] = []  # the caller's dict stays the caller's
    assert f.parameters.json_schema["required"] == ["n"]
    assert f.check({"n": 2}).values == {"n": 2}
    with pytest.raises(InvalidArguments, match=r"n: .*minimum|n: .*less than"):
        f.check({"n": 0})
    with pytest.raises(InvalidArguments):
        f.check({"n": "2"})


def test_a_pydantic_model_in_place_of_hints_gives_the_function_its_fields() -> None:
    @tool(schema=Address)
    def send(street: str, zip_code: str) -> None: ...

    assert send.check({"street": "A", "zip": "1"}).values == {"street": "A", "zip_code": "1"}
    with pytest.raises(InvalidArguments, match="street: Field required"):
        send.check({"zip": "1"})


class Parcel(BaseModel):
    to: Annotated[Address, Field(validation_alias="recipient", serialization_alias="addressee")]
    grams: Annotated[int, Field(validation_alias=AliasChoices("weight", "mass"))]
    note: Annotated[str, Field(serialization_alias="remark")] = ""


def test_a_model_with_aliases_has_one_form_for_the_model_the_person_and_the_policy() -> None:
    """What is shown is named as the schema names it, so that it may be edited and given back."""

    @tool(schema=Parcel)
    def send(to: Address, grams: int, note: str) -> None: ...

    checked = send.check({"recipient": {"street": "A", "zip": "1"}, "mass": 5})
    assert checked.json == {"recipient": {"street": "A", "zip": "1"}, "weight": 5, "note": ""}
    assert set(checked.json) == set(send.parameters.json_schema["properties"])
    assert checked.values == {"to": Address(street="A", zip="1"), "grams": 5, "note": ""}
    assert send.check(checked.json) == checked
    assert not _core.validate(send.edit_schema, checked.json)


async def test_what_a_person_was_shown_of_a_model_with_aliases_may_be_edited() -> None:
    seen: list[dict[str, Any]] = []
    sent: list[str] = []

    def policy(ctx: RunContext[Any], args: dict[str, Any]) -> bool:
        seen.append(args)
        return True

    def no_empty_code(zip_code: str) -> None:
        seen.append({"guardrail": zip_code})

    @tool(schema=Address, requires_approval=policy, input_guardrails=[no_empty_code])
    async def send(street: str, zip_code: str) -> str:
        sent.append(zip_code)
        return "sent"

    script = [{"tool_calls": [{"name": "send", "args": {"street": "A", "zip": "1"}}]}, {"content": "done"}]
    agent = ReActAgent(client=ScriptedChatClient(script), tools=[send])
    paused = await hitl.run(agent, "go")
    assert paused.state is not None
    (asked,) = paused.interrupts
    assert asked.tool_args == {"street": "A", "zip": "1"}
    assert seen == [{"guardrail": "1"}, {"street": "A", "zip": "1"}]
    done = await hitl.run(agent, paused.state.edit(asked, {**asked.tool_args, "zip": "2"}))
    assert (done.output, sent) == ("done", ["2"])


def test_a_schema_that_is_none_is_refused_at_decoration() -> None:
    with pytest.raises(ValueError, match=r"^Invalid schema: \"no such type\""):
        tool(lambda **_: None, name="f", schema={"type": "no such type"})
    with pytest.raises(ValueError, match="must describe an object"):
        tool(lambda **_: None, name="f", schema={"type": "string"})
    with pytest.raises(TypeError, match="JSON Schema or a pydantic model"):
        tool(lambda **_: None, name="f", schema=int)  # type: ignore[arg-type]


def test_what_json_cannot_describe_is_refused_at_decoration() -> None:
    class Opaque:
        pass

    with pytest.raises(TypeError, match=r"tool 'f' has the parameter 'b', which JSON cannot describe") as refused:

        @tool
        def f(a: int, b: Opaque) -> None: ...

    assert "hint: use a JSON-like type" in str(refused.value)
    assert "arbitrary_types_allowed" not in str(refused.value)
    with pytest.raises(TypeError, match=r"takes \*paths"):

        @tool
        def g(*paths: str) -> None: ...

    with pytest.raises(TypeError, match=r"takes \*\*kwargs, which a model cannot be told about"):

        @tool
        def h(**options: str) -> None: ...


class Weighed(TypedDict):
    grams: int


def test_a_typed_dict_that_pydantic_does_not_take_is_refused_with_what_to_write() -> None:
    def send(parcels: list[Weighed]) -> None: ...

    if sys.version_info >= (3, 12):
        assert tool(send).check({"parcels": [{"grams": 5}]}).values == {"parcels": [{"grams": 5}]}
    else:
        with pytest.raises(TypeError, match=r"(?s)'send' has the parameter 'parcels'.*hint: .*from typing_extensions"):
            tool(send)


def test_annotations_may_name_local_and_later_classes() -> None:
    class Local(BaseModel):
        x: int

    @tool
    def local(a: Local) -> None: ...

    @tool
    def later(a: Later) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    assert local.check({"a": {"x": 1}}).values["a"] == Local(x=1)
    with pytest.raises(TypeError, match="names 'Later', which is not defined"):
        _ = later.parameters
    globals()["Later"] = Local
    try:
        assert later.check({"a": {"x": 1}}).json == {"a": {"x": 1}}
    finally:
        del globals()["Later"]
