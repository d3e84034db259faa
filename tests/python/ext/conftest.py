"""One server for each framework and isolation, whose turns leave memory whenever they wait: each answer is a replay."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.python.ext.proof import CAMPS, Ledger
from tests.python.support.served import Served


@pytest.fixture(scope="module", params=CAMPS)
def camp(request: pytest.FixtureRequest) -> str:
    """Which framework."""
    name: str = request.param
    return name


@pytest.fixture(scope="module", params=["process", "task"])
def isolation(request: pytest.FixtureRequest) -> str:
    kind: str = request.param
    return kind


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Ledger:
    return Ledger(tmp_path_factory.mktemp("ext") / "ledger")


@pytest.fixture(scope="module")
def served(camp: str, isolation: str, ledger: Ledger, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with ExitStack() as stack:
        store = f"sqlite:{tmp_path_factory.mktemp(f'{camp}-{isolation}') / 'hitl.db'}"
        yield stack.enter_context(serve(camp, isolation, ledger.path, store))


def serve(camp: str, isolation: str, ledger: Path, store: str) -> Served:
    environment = {"LEDGER": str(ledger)}
    return Served(CAMPS[camp], store=store, isolation=isolation, environment=environment, park_after=0, workers=4)
