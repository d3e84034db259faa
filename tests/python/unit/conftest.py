"""What the tests of workers start."""

from collections.abc import Callable, Iterator

import pytest

from tests.python.unit.worker_process import Child


@pytest.fixture
def child() -> Iterator[Callable[..., Child]]:
    """Starts a worker process and takes its hello."""
    started: list[Child] = []

    def start(agent: str, mode: str = "turn") -> Child:
        started.append(Child(agent, mode))
        started[-1].expect("hello")
        return started[-1]

    yield start
    for each in started:
        each.__exit__()
