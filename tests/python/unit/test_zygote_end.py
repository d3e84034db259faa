"""What becomes of a zygote's children when the server is gone."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from hitl.driver.shapes import as_agent
from hitl.worker import zygote as module
from hitl.worker.zygote import Zygote
from tests.python.support.agents import playbook

Say = Callable[[bool], None]


@pytest.fixture
def zygote() -> Iterator[Zygote]:
    ours, theirs = socket.socketpair()
    loop: Any = None  # no child of this test runs turns
    made = Zygote(theirs, as_agent(playbook), "", loop)
    yield made
    for end in (ours, theirs, made._epoll, made._woken, made._wakeup):
        end.close()


def add(zygote: Zygote, number: int) -> tuple[subprocess.Popen[bytes], Say]:
    """A child that would run for a minute, and what it says in its mark by."""
    say = zygote._holding.add(number)
    assert say is not None
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], process_group=0)
    zygote._children[number], zygote._numbers[child.pid] = child.pid, number
    return child, say


def test_one_that_closes_what_it_has_open_is_killed_as_soon_as_a_turn_reaches_it(
    zygote: Zygote, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "END_SECONDS", 60.0)
    (idle, _), (closing, say) = add(zygote, 1), add(zygote, 2)
    say(True)
    looks = 0

    def sleep(_: float) -> None:
        nonlocal looks
        looks += 1
        say(False)  # what the server had sent is read in between

    clock: Any = SimpleNamespace(monotonic=time.monotonic, sleep=sleep)
    monkeypatch.setattr(module, "time", clock)
    begun = time.monotonic()
    zygote._end_children()
    assert looks <= 2
    assert time.monotonic() - begun < 30
    for child in (idle, closing):
        child.wait()  # the zygote has reaped it
