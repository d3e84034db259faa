"""`hitl servers`: whose server is asked to end. What it does with a database is tested in tests/python/cluster."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from hitl.cli.app import program
from hitl.cli.output import Failure

TYPED, SET = "postgresql://typed.test/hitl", "postgresql://set.test/hitl"


@pytest.mark.parametrize("environment", [{}, {"HITL_STORE": SET}], ids=["alone", "with HITL_STORE"])
@pytest.mark.parametrize(
    "arguments",
    [
        ("--store", TYPED, "drain", "one"),
        ("drain", "one", "--store", TYPED),
        ("--store", SET, "drain", "one", "--store", TYPED),
    ],
    ids=["before", "after", "both"],
)
def test_the_database_that_is_typed_is_meant_on_either_side(
    monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], environment: dict[str, str]
) -> None:
    assert _asked(monkeypatch, arguments, environment) == [TYPED]


def test_without_one_it_is_that_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _asked(monkeypatch, ("drain", "one"), {"HITL_STORE": SET}) == [SET]


def _asked(monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], environment: dict[str, str]) -> list[str]:
    """The databases in which a server of that name was looked for."""
    asked: list[str] = []
    monkeypatch.setattr("hitl.cli.servers._servers", lambda address: asked.append(address) or [])
    ended = CliRunner().invoke(program(), ["servers", *arguments], env=environment)
    assert isinstance(ended.exception, Failure), ended.output
    assert ended.exception.message == "no server is called one"
    return asked
