"""What only pydantic can write of its models (a URL, an address), as JSON: where that leads back to the very same."""

from __future__ import annotations

import dataclasses
import functools
import json
from datetime import datetime, time
from decimal import Decimal
from typing import Any, Final

from hitl.journal.attributes import model_slots_of, without_cached

NONE: Final = object()
"""Instead of JSON: there is none that leads back."""


def of_model(model: Any) -> Any:
    """A model's JSON, read; ``NONE`` where a model of other values, or of plainer types, would be made of it."""
    try:
        text: str = model.model_dump_json(by_alias=True, warnings=False)
        again = type(model).model_validate_json(text)
    except Exception:  # noqa: BLE001 - an author's validators run here, and JSON may not be what they are for
        return NONE
    return json.loads(text) if _is_same(again, model) else NONE


def of_field(model: Any, name: str) -> Any:
    """The JSON of one field, read; or ``NONE``."""
    kind: Any = type(model)
    value = vars(model)[name]
    if name not in kind.model_fields:  # an attribute beside them
        return NONE
    try:
        field = _adapter(kind, name)
        text = field.dump_json(value, warnings="error")
        again = field.validate_json(text)
    except Exception:  # noqa: BLE001 - as above, or of a type that pydantic does not know
        return NONE
    return json.loads(text) if _is_same(again, value) else NONE


def read_field(kind: Any, name: str, written: Any) -> Any:
    """The value of a field from its JSON. ValueError for what is none; LookupError where the field is gone."""
    from pydantic.errors import PydanticUserError

    try:
        return _adapter(kind, name).validate_json(json.dumps(written))
    except PydanticUserError as error:
        raise ValueError(f"{kind.__qualname__}.{name} is of a type now that pydantic cannot read: {error}") from error


@functools.lru_cache(maxsize=256)
def _adapter(kind: Any, name: str) -> Any:
    """Reads and writes a field alone: a validator of its model has seen the value when the original was made."""
    from typing import Annotated

    from pydantic import TypeAdapter

    field = kind.model_fields[name]
    annotation: Any = Annotated[(field.annotation, *field.metadata)] if field.metadata else field.annotation
    return TypeAdapter(annotation)


def _is_same(one: Any, other: Any) -> bool:
    """Equal, and of the same types all the way down."""
    kind = type(one)
    if one is other:
        return True
    if kind is not type(other):
        return False
    if isinstance(one, dict):
        return len(one) == len(other) and all(map(_is_same, one.items(), other.items()))
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(_is_same, one, other))
    if isinstance(one, set | frozenset):
        others = {item: item for item in other}
        return len(one) == len(other) and all(item in others and _is_same(item, others[item]) for item in one)
    if isinstance(one, datetime | time):
        return one.fold == other.fold and _is_same(one.tzinfo, other.tzinfo) and one == other
    if hasattr(kind, "__pydantic_core_schema__") and hasattr(kind, "model_fields"):
        return _is_same(_parts(one), _parts(other))
    if dataclasses.is_dataclass(kind):
        return all(_is_same(getattr(one, f.name, NONE), getattr(other, f.name, NONE)) for f in dataclasses.fields(kind))
    if isinstance(one, float | complex | Decimal) and repr(one) != repr(other):
        return False  # -0.0 and 1.50 are equal to what they are not
    return bool(one == other)


def _parts(model: Any) -> list[Any]:
    held = without_cached(type(model), vars(model))
    fields = [held.pop(name, NONE) for name in type(model).model_fields]
    extra, private = model.__pydantic_extra__ or {}, model.__pydantic_private__ or {}
    return [fields, held, model.model_fields_set, extra, private, model_slots_of(model)]
