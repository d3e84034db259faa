"""A program that runs an agent without a server dies at each place that it comes by; started again, it goes on."""

from __future__ import annotations

import json
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.python.faults.world import full
from tests.python.support.served import begin

PLACES = {
    "store.begin": 7,
    "store.job_done": 7,
    "store.before_commit": 7,
    "store.after_commit": 7,
    "store.replied": 7,
    "store.close": 1,
    "store.turn_inserted": 1,
    "store.before_append": 7,
    "store.after_append": 7,
    "store.claimed": 3,
    "store.parked": 2,
    "store.interrupt_inserted": 2,
    "store.outcome_written": 2,
    "store.messages_set": 1,
    "store.turn_ended": 1,
    "engine.claim_written": 2,
    "engine.start": 3,
    "engine.started": 3,
    "engine.replayed": 2,
    "engine.append": 7,
    "engine.append_written": 7,
    "engine.append_committed": 7,
    "engine.pause_committed": 2,
    "engine.parked_at_once": 2,
    "engine.end": 1,
    "engine.end_written": 1,
    "engine.end_committed": 1,
}
"""How often a run of the program comes by each place, and not more than 7 times."""

HITS = [(place, hit) for place, times in PLACES.items() for hit in full((min(2, times),), range(1, times + 1))]
ROLES = ["user", "assistant", "tool", "tool", "assistant", "tool", "assistant"]


def run(folder: Path, place: str | None = None) -> dict[str, Any] | None:
    """Start the program; None when it died, as it was to."""
    died_at = {} if place is None else {"HITL_FAILPOINT": place}
    arguments = [f"sqlite:{folder / 'runs.db'}", str(folder / "effects")]
    program = begin(("tests.python.faults.dying_run", arguments), died_at)
    assert program.stdout is not None
    with program.stdout:
        printed = program.stdout.read()
    code = program.wait()
    if code == -signal.SIGABRT and place is not None:
        return None
    assert code == 0, printed
    said: dict[str, Any] = json.loads(printed)
    return said


@pytest.mark.slow
@pytest.mark.parametrize(("place", "hit"), HITS)
def test_a_run_that_died_anywhere_goes_on_in_another_process(place: str, hit: int, tmp_path: Path) -> None:
    assert run(tmp_path, f"{place}@{hit}") is None, "it does not come by that often"
    said = run(tmp_path)
    assert said is not None
    # Where its turn was over when it died, it has begun another one.
    assert (said["status"], said["output"]) in (("idle", "done"), ("idle", "done before"))
    assert said["roles"][: len(ROLES)] == ROLES
    times = Counter((tmp_path / "effects").read_text().split())
    assert (times["paid-1"], times["paid-2"]) == (1, 1)
    assert 1 <= times["looked"] <= 2
    if "look" in said["finished"]:
        assert times["looked"] == Counter(said["effects"])["looked"], "a finished step ran again"
