"""What becomes of a zygote's children: when the server is gone, and when one more cannot be made."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hitl.driver.shapes import as_agent
from hitl.worker import zygote as module
from hitl.worker.zygote import Zygote
from tests.python.support.agents import playbook
from tests.python.support.waiting import eventually

ROOT = Path(__file__).parents[3]

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
    say = zygote._open_marks.add(number)
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


class Control:
    """The server's end of a real zygote's control socket."""

    def __init__(self, spec: str = "tests.python.unit.worker_agents:echo", *paths: str) -> None:
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(100)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "hitl.worker.zygote", spec, *paths],
            stdin=theirs,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([*filter(None, sys.path), str(ROOT)])},
        )
        theirs.close()
        assert self.heard()["is"] == "ready"

    def heard(self) -> dict[str, Any]:
        said: dict[str, Any] = json.loads(self.socket.recv(64 * 1024))
        return said

    def fork(self, child: int, descriptors: int = 3) -> dict[str, Any]:
        """Ask for a child with so many descriptors: what is said about it."""
        ours, theirs = socket.socketpair()
        ours.settimeout(100)
        with ours, Path(os.devnull).open("w") as nothing:
            with theirs:
                given = [theirs.fileno(), nothing.fileno(), nothing.fileno()][:descriptors]
                request = {"do": "fork", "child": child, "mode": "pool"}
                socket.send_fds(self.socket, [json.dumps(request).encode()], given)
                said = self.heard()
            assert said["is"] == "forked" or ours.recv(1) == b"", "the zygote keeps what came"
        return said


@pytest.fixture
def control() -> Iterator[Control]:
    made = Control()
    yield made
    made.socket.close()
    made.process.wait(timeout=100)


@pytest.mark.parametrize("descriptors", [0, 1, 2])
def test_a_child_whose_descriptors_do_not_come_is_not_forked(control: Control, descriptors: int) -> None:
    said = control.fork(1, descriptors)
    assert (said["is"], said["child"], said["code"], said["signal"]) == ("exited", 1, None, None)
    assert said["error"] == f"{descriptors} of its 3 descriptors came, are too many files open?"
    assert control.fork(2)["is"] == "forked"


@pytest.mark.parametrize("stdout", ["None", "type('Written', (), {'write': lambda self, text: len(text)})()"])
def test_an_agent_that_has_replaced_standard_output_is_forked_all_the_same(tmp_path: Path, stdout: str) -> None:
    (tmp_path / "quiet.py").write_text(
        f"import sys\n\nfrom tests.python.unit.worker_agents import echo as echo\n\nsys.stdout = {stdout}\n"
    )
    control = Control("quiet:echo", str(tmp_path))
    with control.socket:
        assert control.fork(1)["is"] == "forked"
    control.process.wait(timeout=100)


LEAVES_A_PROGRAM = """
import os, subprocess
from pathlib import Path
from tests.python.unit.worker_agents import echo as echo

def start():
    # In a session of its own: it is not killed with the group of the child.
    program = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    Path({file!r}).write_text(str(program.pid))

os.register_at_fork(after_in_child=start)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere it is process 1 that takes it up")
def test_what_a_child_leaves_over_is_reaped(tmp_path: Path) -> None:
    """Where the server is process 1, as in a container, nobody else would."""
    file = tmp_path / "pid"
    (tmp_path / "leaving.py").write_text(LEAVES_A_PROGRAM.format(file=str(file)))
    control = Control("leaving:echo", str(tmp_path))
    with control.socket:
        assert control.fork(1)["is"] == "forked"
        assert control.heard()["is"] == "exited"  # its channel is closed
        program = int(file.read_text())
        eventually(lambda: parent_of(program), control.process.pid)
        os.kill(program, signal.SIGKILL)
        eventually(lambda: Path(f"/proc/{program}").exists(), False)
    control.process.wait(timeout=100)


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
