"""What an instance holds in its attributes."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import MemberDescriptorType
from typing import Any


def slots_of(value: Any) -> dict[str, Any]:
    """What the slots of an instance hold, by the names that they have in the end: `__x` of a class is `_Class__x`."""
    names = [
        name
        for base in type(value).__mro__
        if "__slots__" in vars(base)
        for name, found in vars(base).items()
        if isinstance(found, MemberDescriptorType)
    ]
    return {name: getattr(value, name) for name in names if hasattr(value, name)}


def model_slots_of(model: Any) -> dict[str, Any]:
    """What the slots of a pydantic model's own hold, besides those that pydantic has."""
    return {name: item for name, item in slots_of(model).items() if not (name.startswith("__") and name.endswith("__"))}


def without_cached(kind: type, attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes without what a `cached_property` keeps among them: that somebody has read it changes no value."""
    cached = imported("functools", "cached_property")
    if cached is None:
        return dict(attributes)
    return {name: item for name, item in attributes.items() if not isinstance(getattr(kind, name, None), cached)}


def imported(module: str, name: str) -> Any:
    """A class of the standard library or of pydantic, where anybody has imported it, else None: nothing can be of it
    then. To import these takes as long as all of a journal's modules."""
    return getattr(sys.modules.get(module), name, None)
