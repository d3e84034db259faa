"""Many answers at once, and answers at the moment of expiry: one winner, and everybody is told the same."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import pytest

from tests.python.faults.rivals import ASKER, one_is_heard, one_of_both_wins
from tests.python.faults.world import World, full

RIVALS = 100
ROUNDS = full(20, 500)
DEADLINES = full(60, 2_000)


@pytest.mark.slow
@pytest.mark.timeout(full(600, 3_600))
@pytest.mark.parametrize("park_after", [0.0, 60.0], ids=["parked", "warm"])
def test_of_a_hundred_answers_one_wins_and_the_others_are_told_so(
    make_world: Callable[..., World], park_after: float
) -> None:
    world = make_world(agent=ASKER, park_after=park_after)
    world.begin()
    clients = [world.client() for _ in range(RIVALS)]
    with closing(world.client()) as asks:
        one_is_heard(clients, asks, ROUNDS // 2)
    for rival in clients:
        rival.close()


@pytest.mark.slow
@pytest.mark.timeout(full(600, 3_600))
def test_of_an_answer_and_an_expiry_at_the_same_time_one_wins(make_world: Callable[..., World]) -> None:
    world = make_world(agent=ASKER, park_after=0.0, workers=4, queue=20_000)
    world.begin()
    wins = one_of_both_wins(world.client, DEADLINES)
    print(wins)
    assert len(wins) == 2, wins
