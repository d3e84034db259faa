"""Docstrings of public names: whatever is called shows how, and what it refuses is said.

Type checkers read the examples: `tests/python/typed`.
"""

from __future__ import annotations

import ast
import inspect
import re

import pytest

import hitl
from tests.python.docs.docstrings import ELSEWHERE, MADE, Public, program, public

NAMES = public()


@pytest.mark.parametrize("each", [each for each in NAMES if each.wants_example], ids=lambda each: each.name)
def test_whatever_is_called_shows_how(each: Public) -> None:
    assert each.examples, f"the docstring of {each.name} has no `Example:`"
    name = each.name.rpartition(".")[2]
    for code in each.examples:
        ast.parse(f"async def example():\n{code}".replace("\n", "\n    "))
    if not inspect.isclass(each.value):  # one of a class may show what makes it
        assert any(re.search(rf"\b{name}\b", code) for code in each.examples), f"no example uses {name}"


def test_what_is_raised_is_said() -> None:
    assert [unsaid for each in NAMES for unsaid in each.unsaid] == []


def test_every_public_name_says_something() -> None:
    silent = [each.name for each in NAMES if len(each.text) < 15 and each.name not in ELSEWHERE]
    assert silent == []


def test_what_is_said_of_names_is_of_names_that_are_there() -> None:
    assert MADE | ELSEWHERE.keys() <= {
        f"{module}.{name}" for each in NAMES for module, _, name in [each.name.rpartition(".")]
    }


def test_an_example_that_is_missing_would_be_missed() -> None:
    def silent(count: int) -> None:
        """Count."""
        if count < 0:
            raise ValueError("less than nothing")

    found = Public("hitl.silent", silent)
    assert found.wants_example
    assert found.examples == []
    assert list(found.unsaid) == ["hitl.silent: ValueError"]


def test_the_examples_are_one_program() -> None:
    ast.parse(program())
    assert program().count("async def example_") > 60
    assert hitl.run.__doc__ is not None
