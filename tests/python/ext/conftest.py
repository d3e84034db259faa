"""One server for each framework and isolation, whose turns leave memory whenever they wait: each answer is a replay."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.python.ext.proof import FRAMEWORKS, Ledger
from tests.python.support.api import Api
from tests.python.support.frameworks import ELSEWHERE
from tests.python.support.served import Served

RULES = """
[[rule]]
name = "no-secrets"
effect = "deny"
tool = "list_files"
when = "args.folder == 'secret'"
reason = "nobody looks there"

[[rule]]
name = "audited"
effect = "ask"
tool = "list_files"
agent = "inner"
when = "args.folder == 'audited'"

[[rule]]
name = "listed"
effect = "ask"
tool = "list_files"
agent = "outer"
when = "args.folder == 'listed'"

[[rule]]
name = "scratch"
effect = "allow"
tool = "delete_file"
when = "args.path == 'scratch'"
"""


@pytest.fixture(scope="module", autouse=True)
def _another_thread() -> Iterator[None]:
    """A program has threads of its own beside an agent: none of them may hold a turn that waits."""
    over = threading.Event()
    thread = threading.Thread(target=over.wait)
    thread.start()
    yield
    over.set()
    thread.join()


@pytest.fixture(scope="module", params=[name for name in FRAMEWORKS if name not in ELSEWHERE])
def framework(request: pytest.FixtureRequest) -> str:
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
def served(
    framework: str, isolation: str, ledger: Ledger, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    with ExitStack() as stack:
        store = f"sqlite:{tmp_path_factory.mktemp(f'{framework}-{isolation}') / 'hitl.db'}"
        yield stack.enter_context(serve(framework, isolation, ledger.path, store))


@pytest.fixture
def api(served: Served) -> Api:
    return served.api


def serve(
    framework: str, isolation: str, ledger: Path, store: str, *, agents: dict[str, str] = FRAMEWORKS, **environment: str
) -> Served:
    rules = ledger.with_suffix(".toml")
    rules.write_text(RULES)
    return Served(
        agents[framework],
        store=store,
        isolation=isolation,
        policy=rules,
        environment={"LEDGER": str(ledger), **environment},
        park_after=0,
        workers=4,
    )
