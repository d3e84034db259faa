"""The server dies, or a worker does, at each place that has a name; then everything goes on as if it had not."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from hitl import _core
from tests.python.faults import worker_points
from tests.python.faults.programs import Maker
from tests.python.faults.world import Client, Gone, Session, World, full
from tests.python.support.waiting import eventually

AGENT = "tests.python.faults.dying_agent:agent"
AGENTS, ROUNDS, HITS = full((1, 1, 2), (4, 5, 6))
"""Agents at once, rounds through all places, and the most times that a place is passed before it kills."""

CHAINS = 6
"""How many stores the places are dealt out to: tests of them run beside each other."""

COLD, WARM, COOLING = {"park_after": 0.0}, {"park_after": 60.0}, {"park_after": 0.02}
"""Whether paused turns leave memory at once, not at all, or soon."""

SUSPENDED = {**COLD, "max_recoveries": 0}
"""A turn whose worker dies waits for a retry."""

OPTIONS: dict[str, dict[str, Any]] = {
    "store.suspended": SUSPENDED,
    "store.reopened": SUSPENDED,
    "engine.suspend_written": SUSPENDED,
    "engine.retry_written": SUSPENDED,
    "engine.retry_committed": SUSPENDED,
    "engine.deliver": WARM,
    "engine.delivered": WARM,
    "supervisor.deliver": WARM,
    "supervisor.delivered": WARM,
    "engine.park": COOLING,
    "engine.park_written": COOLING,
    "engine.park_committed": COOLING,
    "engine.expire_written": WARM,
    "worker.answered.before": WARM,
    "worker.answered.after": WARM,
    "worker.expired.before": WARM,
    "worker.expired.after": WARM,
    "worker.timer.before": WARM,
    "worker.timer.after": WARM,
    "engine.shut_down": WARM,
    "engine.shut_down_parked": WARM,
}

AT_THE_END = ("engine.shut_down", "engine.shut_down_parked", "store.close")
"""Passed when the server is told to stop."""

CANCELS = ("engine.cancel_written", "engine.cancel_committed")
CHECKPOINTS = ("store.checkpoint", "store.checkpointed")
LEFT_PAUSED = ("engine.recover_parked",)
"""Passed when the last server has left a paused turn in memory."""


class Run:
    """Server after server on one store, each of which dies at its place."""

    def __init__(self, world: World, seed: object) -> None:
        self._world = world
        self._maker = Maker(seed)
        self._chance = random.Random(str(seed))

    def pass_by(self, place: str) -> None:
        """A server, or one of its workers, dies at that place, sooner or later."""
        for hit in (self._chance.randint(1, HITS), 1):
            if place in LEFT_PAUSED:
                self._leave_paused()
            environment, died = self._arm(place, hit)
            server = self._world.start(environment, **OPTIONS.get(place, COLD))
            sessions = [self._world.session(self._maker.mix(), cancels=place in CANCELS) for _ in range(AGENTS)]
            client = self._world.client()
            client.given_up.set()
            with closing(client):
                try:
                    if server.url() is None:
                        server.wait()
                    else:
                        self._go_on(client, sessions, died)
                        if place in CHECKPOINTS:
                            self._write_much(client)
                except Gone:
                    server.wait()
            if place in AT_THE_END and server.returncode is None:
                server.signal(signal.SIGTERM)
                server.wait()
            has_died = died()
            server.kill()
            if has_died:
                return
        raise AssertionError(f"nothing died at {place}: {server.returncode}\n" + "\n".join(server.lines))

    def finish(self) -> None:
        """A last server, and nothing of what was acknowledged on the way is missing."""
        self._world.begin(**COLD)
        with closing(self._world.client()) as client:
            self._go_on(client, self._world.sessions, lambda: False)
        self._world.reckon()

    def _arm(self, place: str, hit: int) -> tuple[dict[str, str], Callable[[], bool]]:
        """The environment in which it dies there, and whether it has."""
        if place.startswith("worker."):
            mark = self._world.directory / f"{len(self._world.processes)}.died"
            environment = {"HITL_WORKER_FAILPOINT": f"{place}@{hit}", "HITL_WORKER_FAILPOINT_MARK": str(mark)}
            return environment, mark.exists
        return (
            {"HITL_FAILPOINT": f"{place}@{hit}"},
            lambda: self._world.server.returncode == -signal.SIGABRT,
        )

    def _go_on(self, client: Client, wanted: list[Session], died: Callable[[], bool]) -> None:
        """Be the person of all sessions, in no particular order, until those wanted are done."""
        deadline = time.monotonic() + full(400, 600)  # seconds: to end what hangs, however busy the machine
        while not all(session.done for session in wanted):
            open_sessions = [session for session in self._world.sessions if not session.done]
            for session in self._chance.sample(open_sessions, len(open_sessions)):
                session.advance(client, wait=0.05)
            assert time.monotonic() < deadline, self._world.describe(open_sessions)
            if died():
                return

    def _write_much(self, client: Client) -> None:
        """So much that the log is copied into the file."""
        for _ in range(2_000):
            client.post("/sessions")

    def _leave_paused(self) -> None:
        session = self._world.session(["seq", self._maker.leaf("step"), self._maker.leaf("ask")])
        self._world.begin(**WARM)
        with closing(self._world.client()) as client:
            session.open(client)
            eventually(lambda: self._world.last_entry(session), "pause")
        self._world.server.kill()


def test_there_are_enough_places() -> None:
    assert len(_core.FAILPOINTS) >= 30
    assert len(set(_core.FAILPOINTS)) == len(_core.FAILPOINTS)
    assert not OPTIONS.keys() - {*_core.FAILPOINTS, *worker_points.PLACES}


@pytest.mark.slow
@pytest.mark.timeout(full(900, 7_200))
@pytest.mark.parametrize("chain", range(CHAINS))
def test_whoever_dies_wherever_nothing_is_lost_and_nothing_is_done_twice(
    make_world: Callable[..., World], chain: int
) -> None:
    # Those of the outbox are passed in test_outbox.py: nobody is told anything here.
    passed = [place for place in _core.FAILPOINTS if not place.startswith("outbox.")]
    places = [*passed, *worker_points.PLACES][chain::CHAINS]
    for number in range(ROUNDS):
        world = make_world(agent=AGENT, workers=4, max_recoveries=20)
        run = Run(world, seed=(chain, number))
        for place in places:
            run.pass_by(place)
        run.finish()
