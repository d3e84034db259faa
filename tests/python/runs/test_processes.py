"""Runs and the life of processes: a normal exit, a fork, a state that goes from one to the next."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
EXITS = 300 if os.environ.get("HITL_TEST_FULL") else 12
"""A naive bridge to threads of the core crashed in 4 to 14 of 30."""


def program(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.python.runs.programs", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


@pytest.mark.timeout(1800)
def test_a_script_that_awaits_once_exits_normally() -> None:
    for number in range(EXITS):
        done = program("once")
        assert (done.returncode, done.stdout, done.stderr) == (0, "you said hello\n", ""), f"exit {number}"


@pytest.mark.parametrize("how", ["cancelled", "hard"])
def test_exit_with_a_run_in_flight(how: str) -> None:
    done = program("in_flight", how)
    assert (done.returncode, done.stdout) == (0, "left True\n"), done.stderr


def test_use_after_a_fork_raises_and_the_parent_goes_on() -> None:
    done = program("forks")
    one, child, two = done.stdout.splitlines()
    assert (one, two) == ("you said one", "you said two")
    assert child.startswith("child: hitl was used in process ")
    assert "was forked" in child
    assert "spawn" in child


def test_a_store_in_memory_may_be_made_before_a_fork() -> None:
    done = program("forks_with_a_store_in_memory")
    assert (done.returncode, done.stdout, done.stderr) == (0, "you said one\nyou said two\n", "")


@pytest.mark.parametrize("how", ["multiprocessing", "subprocess", "exit"])
def test_a_fork_beside_a_thread_leaves_its_loop_and_its_resources_alone(tmp_path: Path, how: str) -> None:
    done = program("forks_beside_a_thread", how, f"sqlite:{tmp_path / 'store.db'}")
    said = ["opened", "child", "opened", "closed by the program"]
    assert (done.returncode, done.stdout.splitlines(), done.stderr) == (0, said, "")


@pytest.mark.parametrize("name", ["child_exits", "child_leaves_its_loop"])
def test_the_exit_of_a_forked_child_leaves_the_loop_of_its_parent_alone(tmp_path: Path, name: str) -> None:
    done = program(name, f"sqlite:{tmp_path / 'store.db'}")
    assert (done.returncode, done.stdout, done.stderr) == (0, "you said one\nyou said two\n", "")


@pytest.mark.parametrize("how", ["run", "live"])
@pytest.mark.parametrize(
    ("what", "out", "err"),
    [
        ("calls", r"RuntimeError: step\.sync\(\) called in process \d+, which was forked inside a turn of process", ""),
        ("prints", "printed by a child\nNone\n", ""),
        ("raises", "parent: 1\n", "ValueError: of a child: raises"),
        ("raises_in_a_thread", "parent: 1\n", "ValueError: of a child: raises_in_a_thread"),
        ("returns", "parent: 1\n", "was forked inside a turn and came back to it; it is ended"),
        ("exits", "parent: 7\n", ""),
    ],
)
def test_a_process_that_an_agent_forks_is_no_part_of_its_turn(what: str, out: str, err: str, how: str) -> None:
    done = program("forks_inside", what, how)
    assert done.returncode == 0, done.stderr
    assert re.match(out, done.stdout), done.stdout
    assert err in done.stderr


@pytest.mark.parametrize("edited", ["", "compatibly"])
def test_paused_in_one_process_decided_in_a_second_resumed_in_a_third(tmp_path: Path, edited: str) -> None:
    for step in (("pause",), ("decide",)):
        assert (done := program(*step, str(tmp_path))).returncode == 0, done.stderr
    done = program("resume", str(tmp_path), edited)
    assert done.stdout == "idle None done False ['a']\n", done.stderr
    assert (tmp_path / "deleted").read_text() == "a\n"


def test_code_that_was_changed_incompatibly_is_an_error_that_keeps_the_state(tmp_path: Path) -> None:
    for step in (("pause",), ("decide",)):
        assert (done := program(*step, str(tmp_path))).returncode == 0, done.stderr
    done = program("resume", str(tmp_path), "incompatibly")
    assert done.stdout == "error replay_mismatch None True []\n", done.stderr
    # With the code as it was the run goes on.
    assert program("resume", str(tmp_path)).stdout == "idle None done False ['a']\n"


THREADED = """
import asyncio, sys, threading
import hitl
from hitl import ChatMessage

async def agent(message, state):
    {work}
    return ChatMessage.assistant_message(content="you said " + message.content), state

print(hitl.run_sync(agent, "hello").output)
"""
IN_A_THREAD = """
thread = threading.Thread(target=lambda: print(hitl.run_sync(agent, "there").output))
thread.start()
thread.join()
"""
IN_A_THREAD_THAT_STAYS = """
over = threading.Event()
def stay():
    print(hitl.run_sync(agent, "there").output)
    over.set()
    threading.Event().wait()

threading.Thread(target=stay, daemon=True).start()
over.wait()
"""


def script(work: str, end: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "-c", THREADED.format(work=work) + end]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=200, check=False)


@pytest.mark.parametrize(
    "work",
    [
        'await asyncio.to_thread(len, "x")',
        'await asyncio.get_running_loop().getaddrinfo("localhost", 80)',
        'await asyncio.get_running_loop().run_in_executor(None, len, "x")',
    ],
)
def test_a_blocking_script_whose_agent_used_a_thread_exits(work: str) -> None:
    done = script(work, "")
    assert (done.returncode, done.stdout, done.stderr) == (0, "you said hello\n", "")


@pytest.mark.parametrize(
    ("end", "code", "said", "error"),
    [
        ("sys.exit(3)", 3, "", ""),
        ("raise LookupError('on purpose')", 1, "", "LookupError: on purpose"),
        ("print(hitl.run_sync(agent, 'again').output)", 0, "you said again\n", ""),
        (IN_A_THREAD, 0, "you said there\n", ""),
        (IN_A_THREAD_THAT_STAYS, 0, "you said there\n", ""),
    ],
    ids=["sys.exit", "an exception", "a second run", "a run in a thread", "a run in a daemon thread"],
)
def test_a_blocking_script_exits_however_it_ends(end: str, code: int, said: str, error: str) -> None:
    done = script('await asyncio.to_thread(len, "x")', end)
    assert (done.returncode, done.stdout) == (code, f"you said hello\n{said}")
    # Nothing but the error itself: the loop was closed, and closed in time.
    assert done.stderr.strip().splitlines()[-1:] == ([error] if error else [])
    assert "Exception ignored" not in done.stderr


CLEANS_UP = """
import asyncio, contextvars, sys
import hitl
from hitl import ChatMessage

async def client():
    try:
        await asyncio.Event().wait()
    finally:
        import wave  # whatever cleaning up takes: nothing can be imported once the interpreter takes itself apart
        with open(sys.argv[1], "w") as file:
            file.write("closed by " + wave.__name__)

async def agent(message, state):
    kept.append(asyncio.get_running_loop().create_task(client(), context=contextvars.Context()))
    await asyncio.sleep(0.001)
    return ChatMessage.assistant_message(content="you said " + message.content), state

kept = []
print(hitl.run_sync(agent, "hello").output)
"""


def test_what_an_agent_left_on_the_loop_of_a_blocking_script_can_clean_up_at_its_exit(tmp_path: Path) -> None:
    file = tmp_path / "cleaned"
    command = [sys.executable, "-W", "error", "-c", CLEANS_UP, str(file)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "you said hello\n", "")
    assert file.read_text() == "closed by wave"


SERVES = """
import hitl
from hitl.serving.options import ServeOptions

async def agent(message, state):
    return message, state

raise SystemExit(hitl.serve({given}))
"""


@pytest.mark.parametrize(
    "given", ["agent, port=0, store='memory'", "ServeOptions(agent=agent, port=0, store='memory')"]
)
def test_a_program_serves_until_it_is_told_to_stop(given: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", SERVES.format(given=given)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as served:
        assert served.stdout is not None
        assert "is served on http://127.0.0.1:" in served.stdout.readline()
        served.terminate()
        assert served.wait(100) == 0
