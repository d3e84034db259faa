"""One order for the sets among arguments: a set has none, its JSON needs one, and it must be the same in every process.

Python orders a set by hashes, and those of text differ from process to process. What people see, digests bind and
journals name would differ with them.
"""

from __future__ import annotations

import dataclasses
import json
from collections import deque
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from hitl.tools.names import shown_name

if TYPE_CHECKING:
    from pydantic import BaseModel


def in_order(value: Any, written: Any) -> Any:
    """The JSON of a value, `written`, with its sets in order; the very same where they are, or where there are none.

    A place whose author writes its JSON by a serializer of their own is left as it is.
    """
    if type(written) not in (list, dict):
        return written
    from pydantic import RootModel

    while isinstance(value, RootModel):
        value = value.root
    if isinstance(written, list):
        return _list_in_order(value, written)
    return members_in_order(_members(value, written), written)


def members_in_order(members: Iterable[tuple[str, Any]], written: dict[str, Any]) -> dict[str, Any]:
    """The same for an object, by the values of its members."""
    changed = {}
    for name, value in members:
        if name in written and (now := in_order(value, written[name])) is not written[name]:
            changed[name] = now
    return {**written, **changed} if changed else written


def is_written_by_author(info: Any) -> bool:
    """Whether the type of a field says how its JSON is written."""
    from pydantic import PlainSerializer, WrapSerializer

    return any(isinstance(item, PlainSerializer | WrapSerializer) for item in info.metadata)


def _list_in_order(value: Any, written: list[Any]) -> list[Any]:
    if not isinstance(value, list | tuple | set | frozenset | deque) or len(value) != len(written):
        return written
    now = [in_order(item, each) for item, each in zip(value, written, strict=True)]
    if isinstance(value, set | frozenset):
        now = ordered(now)
    return written if all(a is b for a, b in zip(now, written, strict=True)) else now


def ordered(items: list[Any]) -> list[Any]:
    """JSON values in an order of their own: text and numbers in theirs, others in that of their JSON."""
    if all(type(item) is str for item in items) or all(type(item) in (int, float) for item in items):
        return sorted(items)
    return sorted(items, key=lambda item: json.dumps(item, sort_keys=True))


def _members(value: Any, written: dict[str, Any]) -> Iterable[tuple[str, Any]]:
    from pydantic import BaseModel

    if isinstance(value, BaseModel):
        return members_of(value)
    if isinstance(value, Mapping):
        if value.keys() == written.keys():
            return value.items()
        # Keys that are no text have become text: they stand in one order.
        return zip(written, value.values(), strict=True) if len(value) == len(written) else ()
    if dataclasses.is_dataclass(value):
        names = [each.name for each in dataclasses.fields(value) if hasattr(value, each.name)]
        infos = getattr(type(value), "__pydantic_fields__", {})
        return [(shown_name(name, infos.get(name)), getattr(value, name)) for name in names]
    return ()


def members_of(value: BaseModel) -> Iterable[tuple[str, Any]]:
    """What its JSON has of a model, by the names that are shown."""
    kind = type(value)
    authors = kind.__pydantic_decorators__
    if authors.model_serializers:
        return
    by_author = {field for each in authors.field_serializers.values() for field in each.info.fields}
    for name, info in kind.model_fields.items():
        if name in vars(value) and not by_author & {name, "*"} and not is_written_by_author(info):
            yield shown_name(name, info), getattr(value, name)
    yield from (value.model_extra or {}).items()
    for name, computed in kind.model_computed_fields.items():
        if not by_author & {name, "*"}:
            yield computed.alias or name, getattr(value, name)
