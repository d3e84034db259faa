"""What a JSON Schema asks for, in words and as an example: whoever answers by hand should not have to read one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hitl.cli.text import exact, exact_json, one_line

DEEP = 8
"""Levels of a schema that are described, a reference being one; what is deeper, or has no end, is shown as it is."""

_LENGTHS = {"minLength": "at least", "maxLength": "at most"}
_COUNTS = {"minItems": "at least", "maxItems": "at most"}
_BOUNDS = {"minimum": "at least", "exclusiveMinimum": "above", "maximum": "at most", "exclusiveMaximum": "below"}

_NOTES = frozenset(("$schema", "$id", "$defs", "definitions", "title", "description", "default", "examples"))
"""What says nothing about which answers are valid."""

_UNDERSTOOD = _NOTES | {
    "type",
    "enum",
    "const",
    "anyOf",
    "$ref",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "pattern",
    "format",
    *_LENGTHS,
    *_COUNTS,
    *_BOUNDS,
}


@dataclass(frozen=True, slots=True)
class Expected:
    """what: a phrase, such as `a whole number, at least 1`. example: JSON that shows the shape; it need not be valid.

    fields: of objects in it, where each value stands and what it is.
    """

    what: str
    example: Any
    fields: Sequence[tuple[str, str]] = field(default_factory=tuple)

    def __str__(self) -> str:
        return f"{self.what}, such as {exact_json(self.example)}"


def expected(schema: Any) -> Expected | None:
    """None where a schema says more than words do here: then it has to be shown itself."""
    try:
        return _Reader(schema).read(schema, "", DEEP)
    except ValueError:  # the reader's own: it came to what there are no words for
        return None


class _Reader:
    def __init__(self, root: Any) -> None:
        self._root = root

    def read(self, schema: Any, place: str, depth: int) -> Expected:
        """place: where the value stands in the answer; empty for all of it."""
        if schema is True or schema == {}:
            return Expected("anything", "value")
        if not isinstance(schema, Mapping) or depth == 0 or not schema.keys() <= _UNDERSTOOD:
            raise ValueError("no words")
        if "$ref" in schema:
            return self.read(self._referred(schema), place, depth - 1)
        if "const" in schema:
            return Expected(exact_json(schema["const"]), schema["const"])
        if isinstance(words := schema.get("enum"), list) and words:
            return Expected("one of " + ", ".join(map(exact_json, words)), words[0])
        if "anyOf" in schema and not schema.keys() <= {"anyOf", *_NOTES}:
            raise ValueError("no words")
        if isinstance(ways := schema.get("anyOf", schema.get("type")), list):
            each = [way if isinstance(way, Mapping) else {**schema, "type": way} for way in ways]
            return _any_of([self.read(way, place, depth - 1) for way in each])
        found = self._of_type(schema, place, depth)
        return Expected(found.what, _shown(schema, found.example), found.fields)

    def _of_type(self, schema: Mapping[str, Any], place: str, depth: int) -> Expected:
        match schema.get("type"):
            case "string":
                return Expected("text" + _form(schema) + _limits(schema, _LENGTHS, " characters"), "...")
            case "integer":
                return Expected("a whole number" + _limits(schema, _BOUNDS), schema.get("minimum", 1))
            case "number":
                return Expected("a number" + _limits(schema, _BOUNDS), schema.get("minimum", 1.5))
            case "boolean":
                return Expected("true or false", True)
            case "null":
                return Expected("null", None)
            case "array":
                item = self.read(schema.get("items", True), f"{place}[]", depth - 1)
                limits = _limits(schema, _COUNTS, " of them")
                return Expected(f"a list{limits}, each {item.what}", [item.example], item.fields)
            case "object":
                return self._object(schema, place, depth)
        raise ValueError("no words")

    def _object(self, schema: Mapping[str, Any], place: str, depth: int) -> Expected:
        properties, required = schema.get("properties", {}), schema.get("required", [])
        others = schema.get("additionalProperties", True)
        if not isinstance(properties, Mapping) or not isinstance(required, list) or not isinstance(others, bool):
            raise ValueError("no words")
        example: dict[str, Any] = {}
        fields: list[tuple[str, str]] = []
        for name in [*properties, *(name for name in required if name not in properties)]:
            where = f"{place}.{name}" if place else str(name)
            found = self.read(properties.get(name, True), where, depth - 1)
            example[name] = found.example
            left_out = "" if name in required else "; may be left out"
            fields += [(where, found.what + left_out + _described(properties.get(name))), *found.fields]
        return Expected("an object", example or {"name": "value"}, fields)

    def _referred(self, schema: Mapping[str, Any]) -> Any:
        """What `$ref` names within the schema; each is a level, so that one which holds itself comes to an end."""
        found, parts = self._root, str(schema["$ref"]).split("/")
        if parts[0] != "#" or not schema.keys() <= {"$ref", *_NOTES}:
            raise ValueError("no words")
        for part in parts[1:]:
            if not isinstance(found, Mapping) or part not in found:
                raise ValueError("no words")
            found = found[part]
        return found


def _any_of(found: Sequence[Expected]) -> Expected:
    if not found or sum(bool(each.fields) for each in found) > 1:
        raise ValueError("two objects")  # fields of two objects in one list would belong to neither
    fields = next((each.fields for each in found if each.fields), ())
    return Expected(" or ".join(each.what for each in found), found[0].example, fields)


def _shown(schema: Mapping[str, Any], example: Any) -> Any:
    """What the schema itself gives as an example, where it does."""
    examples = schema.get("examples")
    if isinstance(examples, list) and examples:
        return examples[0]
    return example if schema.get("default") is None else schema["default"]


def _described(schema: Any) -> str:
    text = schema.get("description") if isinstance(schema, Mapping) else None
    return f" ({one_line(text)})" if isinstance(text, str) and text else ""


def _form(schema: Mapping[str, Any]) -> str:
    parts = []
    if "format" in schema:
        parts.append(f" as a {one_line(str(schema['format']))}")
    if "pattern" in schema:
        parts.append(f" that matches {exact(str(schema['pattern']))}")
    return "".join(parts)


def _limits(schema: Mapping[str, Any], words: Mapping[str, str], unit: str = "") -> str:
    """words: what a keyword of the schema says of its number."""
    parts = [f"{word} {schema[name]}{unit}" for name, word in words.items() if schema.get(name) is not None]
    return ", " + " and ".join(parts) if parts else ""
