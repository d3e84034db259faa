"""How simulated worlds are looked at by the hundred thousand (`tools/worlds.py`)."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tools import worlds
from tools.worlds import TESTS, WorldBatch, begin_after, look_at, looked_at, read, summed_up

BATCH = WorldBatch(
    day="2026-11-28", commit="abc1234", test=TESTS[0], first=0, worlds=500, wrong=[], whole=True, seconds=20.0
)


def executable(path: Path, prints: str, ends: int) -> Path:
    """Stands in for the tests of the core."""
    path.write_text(f"#!{sys.executable}\nimport os, sys\nprint({prints!r} % dict(os.environ))\nsys.exit({ends})\n")
    path.chmod(0o755)
    return path


def test_a_batch_in_which_nothing_is_wrong(tmp_path: Path) -> None:
    says = "from %(HITL_SIMULATED_FROM)s, %(HITL_SIMULATED_SEEDS)s\ntest result: ok. 1 passed"
    batch, said = look_at(executable(tmp_path / "tests", says, 0), TESTS[0], range(500, 700), "abc1234")
    assert (batch.first, batch.worlds, batch.wrong, batch.whole) == (500, 200, [], True)
    assert said.startswith("from 500, 200\n")


@pytest.mark.parametrize(
    ("says", "ends", "wrong", "whole"),
    [
        ("2 of 500 worlds, seeds [7, 19]; the first: []\nalone: HITL_SIMULATED_SEED=7 cargo", 101, [7, 19], True),
        ("the world of seed 9 has not ended", 101, [], False),
        ("test result: ok. 0 passed", 0, [], False),
    ],
)
def test_a_batch_in_which_something_is(tmp_path: Path, says: str, ends: int, wrong: list[int], whole: bool) -> None:
    batch, said = look_at(executable(tmp_path / "tests", says, ends), TESTS[0], range(500), "abc1234")
    assert (batch.wrong, batch.whole) == (wrong, whole)
    assert said == f"{says}\n"


def test_it_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    kept = tmp_path / "worlds.jsonl"
    assert begin_after(read(kept)) == dict.fromkeys(TESTS, 0)
    kept.write_text(json.dumps(BATCH.__dict__) + "\n")
    assert read(kept) == [BATCH]
    assert begin_after(read(kept)) == {TESTS[0]: 500, TESTS[1]: 0}


def test_whichever_test_is_behind_comes_first(tmp_path: Path) -> None:
    fake = executable(tmp_path / "tests", "test result: ok. 1 passed", 0)
    begin = {TESTS[0]: 500, TESTS[1]: 0}
    batches = [batch for batch, _ in looked_at(fake, "abc1234", begin, worlds.BATCH + 1, time.monotonic() + 3600)]
    assert [(batch.test, batch.first, batch.worlds) for batch in batches] == [
        (TESTS[1], 0, 100),
        (TESTS[1], 100, 1),
        (TESTS[0], 500, 100),
        (TESTS[0], 600, 1),
    ]


def test_nothing_begins_when_its_time_is_over(tmp_path: Path) -> None:
    assert not list(looked_at(tmp_path / "none", "abc1234", dict.fromkeys(TESTS, 0), 10, time.monotonic()))


def test_the_sum_names_what_was_wrong_and_what_nobody_knows() -> None:
    later = replace(BATCH, first=500, worlds=500, wrong=[612])
    without_an_end = replace(BATCH, first=1000, whole=False)
    first, second = summed_up([BATCH, later, without_an_end, replace(BATCH, commit="def5678")])
    assert first == (
        f"abc1234, 2026-11-28, {TESTS[0]}, seeds 0 to 1499: 1,000 worlds in 40 s, 1 wrong: [612]; "
        "without an end, the batches from [1000] on"
    )
    assert second == f"def5678, 2026-11-28, {TESTS[0]}, seeds 0 to 499: 500 worlds in 20 s, 0 wrong"
