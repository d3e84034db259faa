"""What the chat says of an answer that has to be valid against a JSON Schema."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field, TypeAdapter

from hitl.cli.chat.expected import expected


class Place(BaseModel):
    city: Annotated[str, Field(description="Without the country", max_length=40)]
    zone: str | None = None


class Order(BaseModel):
    amount: Annotated[int, Field(ge=1, lt=100)]
    sizes: Annotated[list[Literal["S", "M"]], Field(min_length=1)]
    where: Place


class Tree(BaseModel):
    children: list[Tree]


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (True, 'anything, such as "value"'),
        ({"type": "integer"}, "a whole number, such as 1"),
        ({"type": "integer", "minimum": 3, "maximum": 9}, "a whole number, at least 3 and at most 9, such as 3"),
        ({"type": "number", "exclusiveMinimum": 0}, "a number, above 0, such as 1.5"),
        ({"type": "boolean"}, "true or false, such as true"),
        ({"type": ["string", "null"]}, 'text or null, such as "..."'),
        ({"type": "string", "format": "date", "examples": ["2026-11-28"]}, 'text as a date, such as "2026-11-28"'),
        ({"type": "string", "pattern": "^a  b$"}, 'text that matches ^a  b$, such as "..."'),
        ({"type": "string", "minLength": 2}, 'text, at least 2 characters, such as "..."'),
        ({"enum": ["red", 3]}, 'one of "red", 3, such as "red"'),
        ({"const": {"a": 1}}, '{"a": 1}, such as {"a": 1}'),
        ({"type": "array", "items": {"const": 3}, "maxItems": 2}, "a list, at most 2 of them, each 3, such as [3]"),
        ({"anyOf": [{"type": "null"}, {"type": "boolean"}]}, "null or true or false, such as null"),
        ({"type": "object"}, 'an object, such as {"name": "value"}'),
    ],
)  # fmt: skip
def test_a_value_is_said_in_words(schema: Any, said: str) -> None:
    assert str(expected(schema)) == said


def test_an_object_is_said_field_by_field() -> None:
    found = expected(TypeAdapter(Order).json_schema())
    assert found is not None
    assert found.what == "an object"
    assert found.example == {"amount": 1, "sizes": ["S"], "where": {"city": "...", "zone": "..."}}
    assert found.fields == [
        ("amount", "a whole number, at least 1 and below 100"),
        ("sizes", 'a list, at least 1 of them, each one of "S", "M"'),
        ("where", "an object"),
        ("where.city", "text, at most 40 characters (Without the country)"),
        ("where.zone", "text or null; may be left out"),
    ]


def test_fields_of_the_objects_in_a_list_are_named_with_it() -> None:
    found = expected({"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer"}}}})
    assert found is not None
    assert found.fields == [("[].n", "a whole number; may be left out")]


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "contentEncoding": "base64"},
        {"oneOf": [{"type": "string"}]},
        {"anyOf": [{"type": "string"}], "minLength": 2},
        {"type": "object", "additionalProperties": {"type": "integer"}},
        {"type": "object", "properties": {"a": {"not": {}}}},
        {"$ref": "elsewhere.json"},
        {"$ref": "#/$defs/missing"},
        {"$ref": "#"},
        {"type": "odd"},
        {"type": "object", "required": "a"},
        {"minimum": 3},
        False,
        None,
        TypeAdapter(Tree).json_schema(),
        TypeAdapter(Order | Place).json_schema(),
    ],
)
def test_a_schema_that_says_more_has_no_words(schema: Any) -> None:
    assert expected(schema) is None
