"""Of hitl, and not of pydantic-ai: what test_tools.py takes from a conftest.py, and no more than that.

pydantic-ai's own, of 54 KB, needs the libraries by which its tests of providers replay HTTP.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import pytest
from pydantic_ai.messages import ModelMessage

T = TypeVar("T")


class _Is:
    """Equals whatever is of a type."""

    of: type

    def __eq__(self, other: object) -> bool:
        return isinstance(other, self.of)

    def __hash__(self) -> int:
        return hash(self.of)


class IsDatetime(_Is):
    of = datetime


class IsStr(_Is):
    of = str


@pytest.fixture
def create_module(tmp_path: Path) -> Iterator[Callable[[str], ModuleType]]:
    """Makes a module of a text."""
    name, path = "made_by_a_test", tmp_path / "made_by_a_test.py"

    def create(text: str) -> ModuleType:
        path.write_text(text, encoding="utf-8")
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    yield create
    sys.modules.pop(name, None)


def iter_message_parts(messages: Sequence[ModelMessage], message_type: type[Any], part_type: type[T]) -> Iterator[T]:
    """The parts of a type in messages of a type."""
    for each in messages:
        if isinstance(each, message_type):
            yield from (part for part in each.parts if isinstance(part, part_type))


def message(messages: Sequence[ModelMessage], message_type: type[T], *, index: int = 0) -> T:
    """A message, which is of a type."""
    found = messages[index]
    assert isinstance(found, message_type)
    return found


def message_part(
    messages: Sequence[ModelMessage], part_type: type[T], *, message_index: int = 0, part_index: int = 0
) -> T:
    """A part of a message, which is of a type."""
    part = messages[message_index].parts[part_index]
    assert isinstance(part, part_type)
    return part
