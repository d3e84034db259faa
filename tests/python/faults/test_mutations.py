"""The suite is no decoration: leave out one rule, and it fails.

The same for syncs is a test of the store (`a_store_without_syncs_goes_red`), for the order of deliveries one of
the replay fuzz.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]

NOTICED_BY = {
    "no_epoch": "test_zombies.py::test_what_a_zombie_says_changes_nothing[step]",
    "no_first_writer": "test_races.py::test_of_a_hundred_answers_one_wins_and_the_others_are_told_so[warm]",
}


@pytest.mark.slow
@pytest.mark.timeout(420)
@pytest.mark.parametrize("mutation", NOTICED_BY)
def test_a_runtime_without_this_rule_fails(mutation: str) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("HITL_", "PYTEST_"))}
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-n0", f"tests/python/faults/{NOTICED_BY[mutation]}"],
        check=False,
        cwd=ROOT,
        env={**environment, "HITL_MUTATION": mutation},
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert run.returncode == 1, run.stdout
    # It is the promise that is broken, not the test.
    assert "AssertionError" in run.stdout, run.stdout
    assert "1 failed" in run.stdout, run.stdout
