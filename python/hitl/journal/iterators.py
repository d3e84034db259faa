"""Iterators among values. Whoever looks into one uses it up, be it to show or to record it: so they become lists first.

pydantic makes one of every `Iterable` and `Generator` that it reads, and checks what is in it when it is taken.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping
from types import GeneratorType
from typing import Any, Final, TypeVar

T = TypeVar("T")

_PYDANTIC: Final = "pydantic_core._pydantic_core"
"""Where the class is that it makes of an `Iterable`: nobody can import that."""


def with_lists(value: T, place: tuple[str | int, ...] = ()) -> T:
    """The same with a list for each iterator in it, in models and dataclasses too, of which copies are made; the very
    same where there are none. pydantic's ValidationError for what does not fit in one."""
    made: T = _with_lists(value, place)
    return made


def _with_lists(value: Any, place: tuple[str | int, ...]) -> Any:
    kind = type(value)
    if kind in (str, int, float, bool, type(None)):
        return value
    if kind is GeneratorType or (kind.__name__ == "ValidatorIterator" and kind.__module__ == _PYDANTIC):
        return _with_lists(_taken(value, place), place)
    if kind is dict:
        now = {key: _with_lists(item, (*place, key)) for key, item in value.items()}
        return value if all(now[key] is item for key, item in value.items()) else now
    if isinstance(value, list | tuple) and (kind in (list, tuple) or hasattr(kind, "_make")):
        items = [_with_lists(item, (*place, index)) for index, item in enumerate(value)]
        if all(one is other for one, other in zip(items, value, strict=True)):
            return value
        return getattr(kind, "_make", kind)(items)
    if hasattr(kind, "__pydantic_core_schema__") and hasattr(kind, "model_fields"):
        held = {**vars(value), **(value.__pydantic_extra__ or {})}
        changed = _changed(held, place, kind.model_fields)
        return value.model_copy(update=changed) if changed else value
    if dataclasses.is_dataclass(kind):
        names = (each.name for each in dataclasses.fields(kind))
        changed = _changed({name: getattr(value, name) for name in names if hasattr(value, name)}, place, {})
        return _replaced(value, changed) if changed else value
    return value


def _changed(held: dict[str, Any], place: tuple[str | int, ...], infos: Mapping[str, Any]) -> dict[str, Any]:
    def called(name: str) -> str:  # as pydantic calls it in errors
        alias = getattr(infos.get(name), "validation_alias", None)
        return alias if isinstance(alias, str) else name

    now = {name: _with_lists(item, (*place, called(name))) for name, item in held.items()}
    return {name: item for name, item in now.items() if item is not held[name]}


def _replaced(value: Any, changed: dict[str, Any]) -> Any:
    made = copy.copy(value)
    for name, item in changed.items():
        object.__setattr__(made, name, item)  # frozen ones take it no other way
    return made


def _taken(iterator: Any, place: tuple[str | int, ...]) -> list[Any]:
    from pydantic import ValidationError
    from pydantic_core import PydanticCustomError

    try:
        return list(iterator)
    except ValidationError as error:  # which knows where in the iterator it is, and no more
        wrong: list[Any] = [
            {
                "type": PydanticCustomError(each["type"], each["msg"]),
                "loc": (*place, *each["loc"]),
                "input": each["input"],
            }
            for each in error.errors(include_url=False)
        ]
        raise ValidationError.from_exception_data(error.title, wrong) from None
