"""Servers of `slow_step_agent`, whose steps last until they are told to go on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.python.support.served import Served
from tests.python.support.waiting import eventually

AGENT = "tests.python.faults.slow_step_agent:agent"


@contextmanager
def serving(directory: Path, **options: Any) -> Iterator[Served]:
    """A server that is killed at the end."""
    served = Served(AGENT, store=str(directory / "hitl.db"), started=True, **{"shutdown_timeout": 30, **options})
    try:
        yield served
    finally:
        served.kill()


def at_work(served: Served, place: Path, once: bool) -> str:
    """A session whose step has begun."""
    session = served.api.create()
    order = json.dumps({"place": str(place), "once": once})
    assert served.api.send(session, order).status_code == 202
    eventually(Path(f"{place}.ran").exists, expected=True)
    return session


def ran(place: Path) -> int:
    """How often the step has begun."""
    return len(Path(f"{place}.ran").read_text().splitlines())
