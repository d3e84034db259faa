"""worker/rehearsal.py: turns that are run before workers are forked. Each in a process of its own, as the zygote is."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hitl.worker import rehearsal
from tests.python.unit.server_end import ServerEnd

ROOT = Path(__file__).parents[3]

LEAVES = """
import asyncio, contextvars, os, signal, sys
from hitl.turn.places import place_var
from hitl.worker import isolation
from hitl.worker.rehearsal import rehearse

def state():
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGCHLD, signal.SIGTERM)]
    descriptors = sorted(os.listdir("/proc/self/fd"))
    context = [variable for variable in contextvars.copy_context()]
    return handlers, signal.set_wakeup_fd(-1), descriptors, context, sys.stdout, sys.stderr

before = state()
rehearse()
assert state() == before, (before, state())
assert isolation.threads() == 1
assert place_var.get() is None
assert asyncio._get_running_loop() is None
assert not asyncio.all_tasks(asyncio.new_event_loop())
"""

IMPORTS = """
import sys
from hitl import ChatMessage
from hitl.worker.child import run_child
from hitl.worker.loading import load_agent
from hitl.worker.rehearsal import rehearse
from tests.python.unit.worker_agents import painter

async def agent(message, state):
    await painter(message, state)
    return ChatMessage.assistant_message(content=" ".join(sorted(set(sys.modules) - before))), []

rehearse()
before = set(sys.modules)
run_child(int(sys.argv[1]), agent, "turn")
"""


def start(script: str, *arguments: str, pass_fds: tuple[int, ...] = ()) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", script, *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([*filter(None, sys.path), str(ROOT)])},
        pass_fds=pass_fds,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.skipif(sys.platform != "linux", reason="nothing is forked elsewhere")
def test_it_leaves_no_thread_descriptor_loop_handler_or_context_behind() -> None:
    process = start(LEAVES)
    assert process.communicate(timeout=100) == ("", "")
    assert process.returncode == 0


def test_a_turn_after_it_imports_nothing_more() -> None:
    with ServerEnd() as server:
        process = start(IMPORTS, str(server.worker.fileno()), pass_fds=(server.worker.fileno(),))
        server.worker.close()
        server.expect("hello")
        server.turn()
        server.ack(server.expect("step"))
        server.open_interrupt()
        server.expect("waiting")
        server.answer("i1", {"hex": "#000"})
        assert server.end()["response"]["content"] == ""
        assert process.communicate(timeout=100) == ("", "")


def test_a_turn_that_does_not_end_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rehearsal, "_SECONDS", 0)
    with pytest.raises(RuntimeError, match="does not come to its end"):
        rehearsal.rehearse()
    with pytest.raises(RuntimeError):
        asyncio.get_running_loop()
