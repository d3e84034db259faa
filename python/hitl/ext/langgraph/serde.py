"""What a saver reads back of what LangGraph's serializer has written: values of classes that are here already.

By itself that serializer imports whatever a row names, and calls it. Here nothing is imported because a row says so,
and nothing is called but a class whose values it writes.
"""

from __future__ import annotations

import copy
import dataclasses
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any, Final
from uuid import UUID

from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer, _create_msgpack_ext_hook

from hitl.journal.codec import find_class

_PLAIN: Final = (set, frozenset, deque, date, time, timedelta, Decimal, UUID, PurePath)
"""Of which subclasses are written as what they are."""

_refused: ContextVar[list[str] | None] = ContextVar("hitl_langgraph_refused", default=None)


class _Imported:
    """The classes, by module and name, that are read besides those that LangGraph calls safe."""

    def __contains__(self, key: Any) -> bool:
        module, name = key
        try:
            found = find_class(module, name)
        except LookupError as error:
            if module not in sys.modules:
                self._refuse(f"{module}.{name}, and {error}")
            return False  # the class is gone: LangGraph has what was in it, and says so
        if _is_written(found):
            return True
        self._refuse(f"{module}.{name}, which is no class of values")
        return False

    def _refuse(self, why: str) -> None:
        refused = _refused.get()
        if refused is not None:
            refused.append(why)


def _is_written(found: Any) -> bool:
    """Whether LangGraph's serializer writes what this makes."""
    if not isinstance(found, type):
        return False
    if issubclass(found, Enum):
        return bool(found.__members__)
    is_model = hasattr(found, "model_fields") or hasattr(found, "__fields__")  # of pydantic 2 and 1
    is_tuple = issubclass(found, tuple) and hasattr(found, "_fields")
    return (
        is_model
        or is_tuple
        or dataclasses.is_dataclass(found)
        or hasattr(found, "get_secret_value")
        or issubclass(found, _PLAIN)
    )


def narrowed(serde: Any) -> Any:
    """The serializer, or the same that reads what is imported where it would read everything, also inside of one that
    encrypts. One that names what it reads, or has a way of its own, is left as it is."""
    inner = getattr(serde, "serde", None)
    if inner is not None:
        if (own := narrowed(inner)) is inner:
            return serde
        made = copy.copy(serde)
        made.serde = own
        return made
    if not isinstance(serde, JsonPlusSerializer) or serde._custom_unpack_ext_hook:
        return serde
    if serde._allowed_msgpack_modules is not True:
        return serde
    made = copy.copy(serde)
    made._unpack_ext_hook, made._custom_unpack_ext_hook = _hook, True
    return made


_hook: Final = _create_msgpack_ext_hook(_Imported())  # type: ignore[arg-type]  # it asks of each whether it is in there


@contextmanager
def whole() -> Iterator[None]:
    """ValueError where something is read in this block whose class is not to be used: LangGraph would give what was in
    it for the value, and a graph would go on with that."""
    refused: list[str] = []
    token = _refused.set(refused)
    try:
        yield
    finally:
        _refused.reset(token)
    if refused:
        raise ValueError(f"the store holds a value that is not read, of {refused[0]}")
