"""What has to be kept of another framework's agent while it waits, beside what was said."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path

import pytest

import hitl
from tests.python.behaviours.ledger import Ledger
from tests.python.behaviours.scenes import DONE, Scene, calls, charge
from tests.python.ext.proof import CAMPS
from tests.python.support.frameworks import ELSEWHERE

LIMITS = dict.fromkeys(CAMPS, 5_000) | {"langgraph": 15_000}
"""In bytes, with two calls that wait."""


@pytest.mark.parametrize("camp", [name for name in CAMPS if name not in ELSEWHERE])
def test_a_state_with_two_calls_that_wait_is_small(camp: str, tmp_path: Path) -> None:
    scene = Scene([calls(charge(1), charge(2)), DONE], gated=["charge"])
    agent, requests = import_module(f"tests.python.behaviours.camps.{camp}").agent_of(scene, Ledger(tmp_path))
    result = hitl.run_sync(agent, "pay")
    assert result.status == "interrupted"
    assert len(result.interrupts) == 2
    beyond = len(result.state.to_string()) - len(json.dumps(requests[-1]))
    assert beyond <= LIMITS[camp]
