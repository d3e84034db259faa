"""Until when a worker begins steps: a page of its server says so."""

from __future__ import annotations

import mmap
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hitl.turn import lease


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[mmap.mmap]:
    """What the server writes to, of a lease that is over."""
    path = tmp_path / "page"
    path.write_bytes(bytes(8))
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 8) as written:
        monkeypatch.setenv(lease.VARIABLE, str(os.open(path, os.O_RDONLY)))
        monkeypatch.setattr(lease, "_page", None)
        lease.go_by(lease.take_page())
        yield written


def may_act(page: mmap.mmap, seconds: float) -> None:
    until = time.clock_gettime_ns(time.CLOCK_BOOTTIME) + int(seconds * 1e9)
    page[:8] = until.to_bytes(8, sys.byteorder)


def test_no_step_begins_until_the_server_may_act(page: mmap.mmap, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            may_act(page, 3600)

    may_act(page, -0.001)
    monkeypatch.setattr(lease.time, "sleep", pause)
    lease.stand_still()
    assert len(pauses) == 3
    lease.stand_still()
    assert len(pauses) == 3, "it is renewed"


def test_agents_do_not_see_which_descriptor_it_is(page: mmap.mmap) -> None:
    assert lease.VARIABLE not in os.environ
    assert lease.take_page() is None
