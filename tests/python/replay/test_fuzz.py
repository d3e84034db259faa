"""Generated agents, crashed after every entry of their journal: each run again sees what the first one saw.

CI runs 1,000 agents. In full: ``HITL_REPLAY_AGENTS=10000 pytest tests/python/replay -n auto``. One agent, to look at:
``python -m tests.python.replay.show SEED [CUT]``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from tests.python.replay.crashes import record_and_replay, together
from tests.python.replay.loops import on_own_loop
from tests.python.replay.programs import (
    KINDS,
    children,
    generate,
    generate_with_connections,
    generate_with_idle_connections,
    generate_with_raw_io,
)

AGENTS = int(os.environ.get("HITL_REPLAY_AGENTS", "1000"))
_AT_ONCE = 50
"""Agents of one loop: their turns and all their replays run side by side on it."""


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, AGENTS, _AT_ONCE), ids=lambda first: f"agents-{first}")
def test_a_turn_that_crashed_anywhere_goes_the_same_way_again(first: int) -> None:
    seeds = range(first, min(first + _AT_ONCE, AGENTS))
    report = on_own_loop(together(record_and_replay(seed, generate(seed)) for seed in seeds))
    assert report.agents == len(seeds)
    assert report.replays > len(seeds)
    assert not report.problems, report.text()


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, AGENTS // 20, _AT_ONCE), ids=lambda first: f"agents-{first}")
def test_so_does_one_that_awaits_raw_io_between_its_steps(first: int) -> None:
    seeds = range(first, first + _AT_ONCE)
    report = on_own_loop(together(record_and_replay(seed, generate_with_raw_io(seed)) for seed in seeds))
    assert report.replays > len(seeds)
    assert not report.problems, report.text()


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, AGENTS // 20, _AT_ONCE), ids=lambda first: f"agents-{first}")
def test_so_does_one_that_keeps_connections_open_and_reads_from_them(first: int) -> None:
    seeds = range(first, first + _AT_ONCE)
    report = on_own_loop(together(record_and_replay(seed, generate_with_connections(seed)) for seed in seeds))
    assert report.replays > len(seeds)
    assert not report.problems, report.text()


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, AGENTS // 20, _AT_ONCE), ids=lambda first: f"agents-{first}")
def test_one_whose_connections_are_idle_pauses_at_each_question(first: int) -> None:
    seeds = range(first, first + _AT_ONCE)
    report = on_own_loop(together(record_and_replay(seed, generate_with_idle_connections(seed)) for seed in seeds))
    assert report.replays > len(seeds)
    assert not report.problems, report.text()


def test_the_generated_agents_do_everything_that_they_can() -> None:
    def kinds(node: Any) -> Iterator[str]:
        yield node[0]
        for part in children(node):
            yield from kinds(part)

    found = {kind for seed in range(200) for kind in kinds(generate(seed))}
    assert found == set(KINDS)
