"""Samples of a framework's tests, run by the plugin that runs its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tools import upstream

HERE = Path(__file__).parent

Results = dict[str, dict[str, Any]]
"""What came of the samples, by name."""


def run(framework: str, samples: str, written: Path, *, left_out: str = "", alone: str = "") -> Results:
    """Run a file of samples from each prefix of its journals; ``written``: where the plugin is to write."""
    paths = [upstream.HERE, upstream.ROOT / "python"]
    environment = {
        **os.environ,
        "HITL_UPSTREAM_FRAMEWORK": framework,
        upstream.FULL: "1",
        "HITL_UPSTREAM_LEFT_OUT": json.dumps([f"{samples}::{left_out}"]),
        "HITL_UPSTREAM_ALONE": json.dumps([f"{samples}::{alone}"]),
        "HITL_UPSTREAM_RESULTS": str(written),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
    }
    command = [sys.executable, "-m", "pytest", "-q", "-c", str(upstream.HERE / "pytest.ini"), "--noconftest"]
    options = ["--rootdir", str(HERE), "-p", "inturns.plugin", str(HERE / samples)]
    done = subprocess.run([*command, *options], env=environment, check=False, capture_output=True, text=True)
    assert written.exists(), done.stdout + done.stderr
    return {each["test"].partition("::")[2]: each for each in json.loads(written.read_text())}
