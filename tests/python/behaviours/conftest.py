"""The face that a test is about, in a folder of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.python.behaviours.faces.elsewhere import end_program
from tests.python.behaviours.faces.face import Face


@pytest.fixture(scope="session", autouse=True)
def elsewhere() -> Iterator[None]:
    """What tests have started to go on in other processes ends with them."""
    yield
    end_program()


@pytest.fixture
def face(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Face]:
    """A driver; everything that it started ends with the test."""
    kind: type[Face] = request.param
    with ExitStack() as cleanup:
        yield kind(tmp_path, cleanup)
