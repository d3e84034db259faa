"""The arguments of a call of another framework's tool as people and rules see them: what the model wrote, and with it
the defaults that stand in the tool's schema. Both are the same in every replay, which what a framework makes of them
need not be: a default may be the time of day.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, Final, NamedTuple, cast

from hitl import _core
from hitl.tools.schema import dotted


class JudgedArguments(NamedTuple):
    """What people and rules see of a call's arguments, as JSON."""

    arguments: dict[str, Any]
    is_run: bool
    """Whether they say what would run. Where a validator changes them they do not, and a person is asked while there
    are rules."""


def beyond_json(arguments: Mapping[str, Any]) -> str | None:
    """What of arguments JSON cannot carry, in words for a model: Python's reader takes ``NaN``, makes infinity of
    ``1e400`` and keeps integers of any size. None where all of it is JSON."""
    try:
        _core.to_json(arguments)
    except ValueError as error:
        return str(error).removeprefix("value.")
    return None


def usable(schema: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """A framework's schema where arguments can be checked against it: one that refers to elsewhere is no such."""
    if schema is None:
        return None
    try:
        _core.check_response_schema(dict(schema))
    except (TypeError, ValueError):
        return None
    return dict(schema)


def misfit(schema: Mapping[str, Any], arguments: Any) -> str | None:
    """What of arguments does not fit a usable schema, in words for a model; None where all of it does."""
    return "; ".join(f"{dotted(each['loc'])}: {each['msg']}" for each in _core.validate(schema, arguments)) or None


def with_defaults(schema: Mapping[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
    """Arguments with the defaults of a usable schema that fit it, also those of objects and lists in them.

    ``null`` for ``count: int = None`` does not fit: it stays left out, as the tool's author would have it.
    """
    return cast(dict[str, Any], _filled(schema, schema, arguments, _DEEPEST))


_DEEPEST: Final = 32
"""Objects and lists in each other, down to which defaults are filled in. Further down it can be told that something
else runs."""


def _filled(root: Mapping[str, Any], schema: Any, value: Any, deepest: int) -> Any:
    part = _only_branch(root, schema, value)
    if part is None or not deepest:
        return value
    if isinstance(value, list):
        return [_filled(root, part.get("items"), each, deepest - 1) for each in value]
    properties = part.get("properties")
    if not isinstance(value, dict) or not isinstance(properties, Mapping):
        return value
    given = {name: _filled(root, properties.get(name), each, deepest - 1) for name, each in value.items()}
    return {**given, **dict(_defaults(root, properties, given))}


def _defaults(
    root: Mapping[str, Any], properties: Mapping[str, Any], given: Mapping[str, Any]
) -> Iterator[tuple[str, Any]]:
    for name, said in properties.items():
        if name in given or not isinstance(said, Mapping) or "default" not in said:
            continue
        if not _core.validate(_whole(root, said), said["default"]):
            yield name, said["default"]


def _only_branch(root: Mapping[str, Any], schema: Any, value: Any) -> Mapping[str, Any] | None:
    """What a value, an object or a list, is described by; None where that is not one schema alone."""
    for _ in range(_DEEPEST):
        if not isinstance(schema, Mapping) or not isinstance(value, dict | list):
            return None
        if "$ref" in schema:
            schema = _referred(root, schema["$ref"])
        elif branches := schema.get("anyOf") or schema.get("oneOf"):
            fitting = [each for each in branches if not _core.validate(_whole(root, each), value)]
            schema = fitting[0] if len(fitting) == 1 else None
        else:
            return schema
    return None


def _referred(root: Mapping[str, Any], reference: Any) -> Any:
    found: Any = root
    for name in str(reference).removeprefix("#").strip("/").split("/"):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def _whole(root: Mapping[str, Any], part: Any) -> Any:
    """A part of a schema, with what it may refer to."""
    definitions = {name: root[name] for name in ("$defs", "definitions") if name in root}
    return {**definitions, **part} if isinstance(part, Mapping) else part


def names_unknown(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> bool:
    """Whether arguments have a member of which a usable schema says nothing. A model of pydantic may read a field by it
    that the schema has under another name (``populate_by_name``), and leaves it out else: what is shown does not say
    what runs."""
    if beyond_json(arguments) is not None:
        return False  # nor does it run where anybody has a say
    return _Naming(schema).is_unknown(schema, arguments, _DEEPEST)


class _Naming:
    """What a schema says of the members of arguments. Of each part and value it is found out once: where several kinds
    fit, there are as many ways down as double with each level."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._found: dict[tuple[int, int], bool] = {}

    def is_unknown(self, part: Any, value: Any, deepest: int) -> bool:
        """Whether ``part`` of the schema leaves a member of ``value`` unsaid, or nobody can tell."""
        if not isinstance(value, dict | list) or not value:
            return False
        place = id(part), id(value)
        if place not in self._found:
            self._found[place] = True  # of one that leads back to itself
            self._found[place] = self._is_unknown(part, value, deepest)
        return self._found[place]

    def _is_unknown(self, part: Any, value: dict[str, Any] | list[Any], deepest: int) -> bool:
        if part is None or isinstance(part, bool):
            return False
        if not deepest or not isinstance(part, Mapping):
            return True
        if "$ref" in part:
            return self.is_unknown(_referred(self._root, part["$ref"]), value, deepest)
        for word in ("anyOf", "oneOf", "allOf"):
            if isinstance(parts := part.get(word), list):
                fitting = [each for each in parts if not _core.validate(_whole(self._root, each), value)]
                return all(self.is_unknown(each, value, deepest) for each in fitting)
        if isinstance(value, list):
            first, rest = part.get("prefixItems") or (), part.get("items")
            parts = (*first, *(rest for _ in value[len(first) :]))
            return any(self.is_unknown(one, each, deepest - 1) for one, each in zip(parts, value, strict=False))
        properties, more = part.get("properties") or {}, part.get("additionalProperties", not part.get("properties"))
        return any(
            self.is_unknown(properties[name], each, deepest - 1)
            if name in properties
            else more is False or self.is_unknown(more, each, deepest - 1)
            for name, each in value.items()
        )


def as_written(made: Any, written: Any) -> Any:
    """What a framework made of arguments, without what the model did not write: the same in every run of a turn, which
    a default that is made anew each time is not."""
    if isinstance(made, dict) and isinstance(written, dict):
        return {name: as_written(value, written[name]) for name, value in made.items() if name in written}
    if isinstance(made, list) and isinstance(written, list) and len(made) == len(written):
        return [as_written(one, other) for one, other in zip(made, written, strict=True)]
    return made


# -- whether it is what runs -------------------------------------------------------------------------------------------


def says(shown: Any, run: Any, *, is_same_read: bool) -> bool:
    """Whether what is shown says what runs, both as JSON.

    What is left out may be ``null`` or empty; numbers may be texts, as of decimals, and lists may be in any order and
    without repetition where they are sets. ``is_same_read``: the framework makes of both the same, so that a time may
    be written otherwise, with another name of its zone.
    """
    if isinstance(shown, dict) and isinstance(run, dict):
        left_out = (value for name, value in run.items() if name not in shown)
        return all(value is None or value in ([], {}) for value in left_out) and all(
            name in run and says(value, run[name], is_same_read=is_same_read) for name, value in shown.items()
        )
    if isinstance(shown, list) and isinstance(run, list):
        if len(shown) == len(run) and all(
            says(one, other, is_same_read=is_same_read) for one, other in zip(shown, run, strict=True)
        ):
            return True
        return is_same_read and _as_set(shown) == _as_set(run)
    if isinstance(shown, bool) or isinstance(run, bool) or shown is None or run is None:
        return shown is run
    if isinstance(shown, str) and isinstance(run, str):
        return shown == run or (is_same_read and bool(_TIME.match(shown) and _TIME.match(run)))
    # Not the other way round: to a rule a text is no number.
    return isinstance(shown, int | float) and isinstance(run, int | float | str) and _number(shown) == _number(run)


def _as_set(values: list[Any]) -> set[str]:
    return {json.dumps(value, sort_keys=True) for value in values}


def _number(value: Any) -> Decimal | None:
    try:
        return Decimal(str(value))
    except InvalidOperation:
        return None


_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d|\d\d:\d\d|-?P[\dT]")
"""How the texts of dates, times and spans begin (ISO 8601)."""
