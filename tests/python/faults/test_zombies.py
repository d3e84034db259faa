"""Workers that were given up and live on: what they say comes too late and changes nothing."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from tests.python.faults.world import Client, World, full
from tests.python.support.waiting import eventually

AGENT = "tests.python.faults.zombie_agent:agent"
LATE = ("step", "ask", "intent", "end")
"""What a zombie says as soon as it goes on."""

ROUNDS = full(5, 200)
AT_ONCE = full(5, 10)


@pytest.mark.slow
@pytest.mark.timeout(full(600, 3_600))
@pytest.mark.parametrize("late", LATE)
def test_what_a_zombie_says_changes_nothing(make_world: Callable[..., World], late: str) -> None:
    world = make_world(agent=AGENT, workers=2 * AT_ONCE, worker_timeout=1.0, max_recoveries=20)
    # Without this the supervisor would kill what it gives up, and there would be no zombies.
    world.begin({"HITL_SPARE_SILENT": "1"})
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for _ in pool.map(lambda number: haunt(world, number, late), range(ROUNDS)):
            pass
    assert world.server.stop() == 0


def haunt(world: World, number: int, late: str) -> None:
    """One turn that is taken over, and its zombie."""
    place = world.ledgers / str(number)
    with closing(world.client()) as client:
        session_id = client.post("/sessions")[1]["session_id"]
        order = {"content": json.dumps({"place": str(place), "late": late})}
        assert client.post(f"/sessions/{session_id}/messages", order)[0] == 202
        zombie = stop(place)
        # Another worker has it, and waits for a person.
        until(client, session_id, "interrupted")
        eventually(lambda: world.journal(session_id)[-1][0], "pause")
        before = world.journal(session_id)
        Path(f"{place}.gate").touch()
        os.kill(zombie, signal.SIGCONT)
        eventually(lambda: is_alive(zombie), False)
        assert world.journal(session_id) == before

        state = client.get(f"/sessions/{session_id}")[1]
        assert state["status"] == "interrupted"
        (record,) = state["interrupts"]
        assert client.post(f"/interrupts/{record['interrupt_id']}/resume", {"value": "alive"})[0] == 200
        until(client, session_id, "idle")
        results = json.loads(client.get(f"/sessions/{session_id}")[1]["response"]["content"])
        paid = [late] if late == "intent" else []
        assert results == [f"{late} by somebody", *paid, "alive", "after by somebody"]


def stop(place: Path) -> int:
    """Stop the worker that tarries, in its tracks: its process id."""
    eventually(lambda: Path(f"{place}.pid").exists() and Path(f"{place}.pid").read_text().endswith("\n"), True)
    pid = int(Path(f"{place}.pid").read_text())
    os.kill(pid, signal.SIGSTOP)
    return pid


def until(client: Client, session_id: str, status: str) -> None:
    eventually(lambda: client.get(f"/sessions/{session_id}?wait=true&timeout=1")[1]["status"], status)


def is_alive(pid: int) -> bool:
    """Whether it is still at it; a process that nobody has reaped yet is not."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False
