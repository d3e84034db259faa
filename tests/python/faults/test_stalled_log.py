"""Whoever reads the log stalls: the server goes on, and says later what could not be written."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import pytest

from tests.python.support.api import Api, Json, ok
from tests.python.support.served import Served, as_command, clean_environment

AGENT = "tests.python.faults.loud_agent:agent"
TOO_MANY = 3000
"""Lines of the agent that do not wait all: 24 MB."""
ENDS = 60.0
"""Seconds that an end takes at most on a busy machine."""
_LOST = re.compile(r"^(\d+) lines of the log were lost, since nobody read them$")


class Unread:
    """A server whose standard error is a pipe that is full when it starts, and that nobody reads until `lines` does.

    blocking: whether whoever writes there waits, or is told to come again.
    """

    def __init__(self, directory: Path, *, blocking: bool = True, **options: Any) -> None:
        pipe = directory / "stderr"
        os.mkfifo(pipe)
        reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        os.set_blocking(reader, True)
        self._reader = os.fdopen(reader, encoding="utf-8")
        theirs = os.open(pipe, os.O_WRONLY | (0 if blocking else os.O_NONBLOCK))
        try:
            _fill(pipe)
            program = Served.quick_program(AGENT, {"port": 0, "store": "memory", "log_format": "json", **options})
            assert program is not None
            self._process = subprocess.Popen(
                as_command(program), env=clean_environment(), stdout=subprocess.PIPE, stderr=theirs, text=True
            )
        finally:
            os.close(theirs)
        assert self._process.stdout is not None
        self.api = Api(self._process.stdout.readline().rpartition(" ")[2].strip())

    def turn(self, lines: int) -> None:
        session = self.api.create()
        assert self.api.send(session, str(lines)).status_code == 202
        assert self.api.wait(session, 200)["response"]["content"] == "printed"

    def lines(self) -> Iterator[Json]:
        """What the log says from here on, to its end."""
        for line in self._reader:
            if line != "\n":  # the pipe was full of those
                yield json.loads(line)

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def wait(self) -> int:
        return self._process.wait(ENDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.api.close()
        self._process.kill()
        self._process.wait()
        self._reader.close()
        assert self._process.stdout is not None
        self._process.stdout.close()


Start = Callable[..., Unread]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts one server, and sees to its end."""
    begun: list[Unread] = []

    def start(**options: Any) -> Unread:
        begun.append(Unread(tmp_path, **options))
        return begun[-1]

    yield start
    for unread in begun:
        unread.__exit__()


def _fill(pipe: Path) -> None:
    filling = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
    try:
        for size in (4096, 1):
            while True:
                try:
                    os.write(filling, b"\n" * size)
                except BlockingIOError:
                    break
    finally:
        os.close(filling)


def message(line: Json) -> str:
    text: str = line["fields"]["message"]
    return text


def printed(lines: list[Json]) -> list[int]:
    """The numbers of the agent's lines among these."""
    return [int(message(line)[:6]) for line in lines if line["target"] == "hitl::agent"]


def up_to_lost(lines: Iterator[Json]) -> tuple[list[Json], int]:
    """The lines before the one that tells how many were lost, and how many."""
    before = []
    for line in lines:
        if lost := _LOST.match(message(line)):
            assert line["level"] == "WARN"
            return before, int(lost[1])
        before.append(line)
    raise AssertionError(f"nothing was told of lost lines among {len(before)}")


@pytest.mark.slow
@pytest.mark.parametrize("isolation", ["process", "task"])
@pytest.mark.parametrize("blocking", [True, False], ids=["blocking", "not-blocking"])
def test_turns_go_on_while_nobody_reads_and_what_was_lost_is_told(start: Start, blocking: bool, isolation: str) -> None:
    unread = start(blocking=blocking, isolation=isolation)
    unread.turn(TOO_MANY)
    assert ok(unread.api.get("/healthz")) is not None

    lines = unread.lines()
    before, lost = up_to_lost(lines)
    assert printed(before) == list(range(len(printed(before))))
    assert lost > 0
    unread.turn(1)
    assert 0 in (number for line in lines for number in printed([line]))


def test_the_end_waits_for_nobody(start: Start) -> None:
    unread = start()
    unread.turn(100)
    unread.signal(signal.SIGTERM)
    assert unread.wait() == 0


def test_everything_is_written_at_the_end_where_somebody_reads(start: Start) -> None:
    # Of turns in one process it is known that all they printed is in the log once they are over.
    unread = start(isolation="task")
    unread.turn(500)
    unread.signal(signal.SIGTERM)
    assert printed(list(unread.lines())) == list(range(500))
    assert unread.wait() == 0
