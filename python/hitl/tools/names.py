"""What the arguments of a tool are called. Where a field is written under another name than it is read by, what is
shown of it bears the name of the schema, by which it is given back.

pydantic writes a field by its `serialization_alias` or its own name, and reads it by its `validation_alias`.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo


def shown_name(name: str, field: FieldInfo | None) -> str:
    """What the schema calls a field."""
    from pydantic import AliasChoices

    alias = None if field is None else field.validation_alias
    if isinstance(alias, AliasChoices):
        alias = next((choice for choice in alias.choices if isinstance(choice, str)), None)
    return alias if isinstance(alias, str) else name


def all_names(name: str, field: FieldInfo) -> set[str]:
    """All that an argument for a field of a model may be called."""
    from pydantic import AliasChoices

    alias = field.validation_alias
    aliases = alias.choices if isinstance(alias, AliasChoices) else [alias]
    return {name, *(each for each in aliases if isinstance(each, str))}


def as_shown(value: Any, written: Any) -> Any:
    """The JSON of a value as pydantic has `written` it, by the names of its schema; the very same where it has them.

    A model whose author writes its JSON is left as it is, and so is one where something else has such a name.
    """
    if type(written) not in (list, dict):
        return written
    from pydantic import BaseModel, RootModel

    while isinstance(value, RootModel):
        value = value.root
    if isinstance(written, list):
        if not isinstance(value, list | tuple | set | frozenset | deque) or len(value) != len(written):
            return written
        now = [as_shown(item, each) for item, each in zip(value, written, strict=True)]
        return written if all(a is b for a, b in zip(now, written, strict=True)) else now
    if isinstance(value, Mapping):
        if len(value) != len(written):
            return written
        return _changed(written, ((name, name, each) for name, each in zip(written, value.values(), strict=True)))
    if isinstance(value, BaseModel):
        if type(value).__pydantic_decorators__.model_serializers:
            return written
        extra = ((name, name, each) for name, each in (value.model_extra or {}).items())
        return _changed(written, [*_fields(value, type(value).model_fields), *extra])
    if dataclasses.is_dataclass(value):
        infos = getattr(type(value), "__pydantic_fields__", {})
        return _changed(
            written, _fields(value, {each.name: infos.get(each.name) for each in dataclasses.fields(value)})
        )
    return written


def _fields(value: Any, infos: Mapping[str, Any]) -> Iterable[tuple[str, str, Any]]:
    """Of each field: what it is written as, what it is shown as, and what it holds."""
    for name, info in infos.items():
        if hasattr(value, name):
            yield getattr(info, "serialization_alias", None) or name, shown_name(name, info), getattr(value, name)


def _changed(written: dict[str, Any], members: Iterable[tuple[str, str, Any]]) -> dict[str, Any]:
    names: dict[str, str] = {}
    changed: dict[str, Any] = {}
    for old, name, value in members:
        if old in written:
            names[old] = name
            if (now := as_shown(value, written[old])) is not written[old]:
                changed[old] = now
    if changed or any(old != name for old, name in names.items()):
        now = {names.get(old, old): changed.get(old, each) for old, each in written.items()}
        return now if len(now) == len(written) else {**written, **changed}
    return written
