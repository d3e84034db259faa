"""Servers and workers that are killed every second or so, while clients go on until they have what they want."""

from __future__ import annotations

import contextlib
import os
import queue
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.python.faults.programs import Maker
from tests.python.faults.world import IS_FULL, Client, Session, World, full

CLIENTS = 20
STORMS = full([(150, 10, 15)], [(2_000, 100, 120), (10_000, 100, 1_200)])
"""How many sessions are paused, how many always at work, and for how many seconds it storms."""


class Storm:
    """Kills the server, or one of its workers, every one to three seconds."""

    def __init__(self, world: World, seed: int) -> None:
        self._world = world
        self._chance = random.Random(seed)
        self._over = threading.Event()
        self.kills = {"server": 0, "worker": 0}

    @property
    def has_hit_all(self) -> bool:
        """Whether both were killed. Where a server is slow to start, that takes longer than the storm was to."""
        return min(self.kills.values()) > 0

    def blow(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while not self._over.wait(self._chance.uniform(1, 3)) and (time.monotonic() < end or not self.has_hit_all):
            workers = self._world.workers()
            if workers and self._chance.random() < 0.4:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self._chance.choice(workers), signal.SIGKILL)
                self.kills["worker"] += 1
            else:
                self._world.server.kill()
                self._world.begin()
                self.kills["server"] += 1

    def stop(self) -> None:
        self._over.set()


def each(
    sessions: list[Session], work: Callable[[Session, Client], bool], client_of: Callable[[], Client], clients: int
) -> None:
    """So many clients at `work` on the sessions, in turn, until it is done with each."""
    left: queue.SimpleQueue[Session | None] = queue.SimpleQueue()
    for session in sessions:
        left.put(session)
    remaining = [len(sessions)]
    lock = threading.Lock()

    def serve() -> None:
        with contextlib.closing(client_of()) as client:
            while (session := left.get()) is not None:
                try:
                    done = work(session, client)
                except BaseException:
                    for _ in range(clients):
                        left.put(None)
                    raise
                if not done:
                    left.put(session)
                    continue
                with lock:
                    remaining[0] -= 1
                    if remaining[0] == 0:
                        for _ in range(clients):
                            left.put(None)

    with ThreadPoolExecutor(clients) as pool:
        for served in [pool.submit(serve) for _ in range(clients)]:
            served.result()


@pytest.mark.slow
@pytest.mark.timeout(3_600 if IS_FULL else 600)
@pytest.mark.parametrize(("paused", "active", "seconds"), STORMS)
def test_a_storm_loses_nothing_and_does_nothing_twice(
    make_world: Callable[..., World], paused: int, active: int, seconds: float
) -> None:
    world = make_world(started=True, workers=4, queue=20_000, max_recoveries=20)
    world.begin()
    maker = Maker(0)
    waiting = [world.session(maker.paused()) for _ in range(paused)]
    each(waiting, is_interrupted, world.client, CLIENTS)

    storm = Storm(world, seed=1)
    blowing = threading.Thread(target=storm.blow, args=(seconds,))
    end = time.monotonic() + seconds
    shares = iter_shares(len(waiting), seconds)
    busy = [world.session(maker.busy()) for _ in range(active)]
    starts = {id(session): time.monotonic() + share for session, share in zip(waiting, shares, strict=True)}

    def work(session: Session, client: Client) -> bool:
        if time.monotonic() < starts.get(id(session), 0):
            # Its person has not come yet. Others are looked after first.
            time.sleep(0.001)
            return False
        if not session.advance(client, wait=0.2):
            return False
        if id(session) in starts or (time.monotonic() >= end and storm.has_hit_all):
            return True
        session.again(maker.busy())
        return False

    blowing.start()
    try:
        each(waiting + busy, work, world.client, CLIENTS)
    finally:
        storm.stop()
        blowing.join()
    turns = sum(session.turns for session in world.sessions)
    print(f"{turns} turns of {len(world.sessions)} sessions; kills: {storm.kills}")
    assert storm.has_hit_all
    world.reckon()


def iter_shares(count: int, seconds: float) -> Iterator[float]:
    """When each of so many persons comes, in seconds from now."""
    return (seconds * number / max(count, 1) for number in range(count))


def is_interrupted(session: Session, client: Client) -> bool:
    """Open it; whether it waits for an answer."""
    session.open(client)
    return bool(session.look(client, wait=1)["status"] == "interrupted")
