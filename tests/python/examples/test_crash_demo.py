"""The program that kills its server at every step: it says how often what ran, and that nothing ran too often."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from examples import crash_demo
from tests.python.support.served import ROOT, clean_environment

STEPS = ["request 1", "check_stock", "request 2", "request 3", "charge", "request 4", "ship", "request 5"]


@pytest.mark.slow
def test_every_step_is_killed_once_and_the_conversation_ends_well() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "examples.crash_demo"],
        check=False,
        cwd=ROOT,
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=230,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    rows = re.findall(r"^(.+?) +killed 1x +ran (\d)x", done.stdout, re.MULTILINE)
    assert rows == [(step, "1" if step == "charge" else "2") for step in STEPS]
    for question in ("user_input", "tool_approval", "unknown_outcome"):
        assert f"kill -9 while it waits for {question}\n" in done.stdout
    assert "one key: 1 parcel" in done.stdout
    assert "killed 11 times. The reply: charged 900; a hat is on its way to Oslo" in done.stdout


@pytest.mark.parametrize(
    "too_often", ["ran charge", "ran check_stock", "parcel another"], ids=["once", "finished", "two parcels"]
)
def test_it_would_tell_what_ran_too_often(too_often: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = tmp_path / "ledger"
    monkeypatch.setenv(crash_demo.LEDGER, str(ledger))
    ran = [f"ran {step}" for step in STEPS for _ in range(1 if step == "charge" else 2)]
    ledger.write_text("\n".join([*ran, "parcel one", "parcel one"]))
    assert crash_demo.table()[1]
    ledger.write_text("\n".join([*ran, "parcel one", "parcel one", too_often]))
    assert not crash_demo.table()[1]
