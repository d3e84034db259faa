"""`deploy/systemd/hitl.service`."""

from __future__ import annotations

import shlex
import shutil
import signal
import subprocess
from collections import defaultdict
from pathlib import Path

from tests.python.deploy.deployed import DEPLOY, KEY, LISTENS, Deployed, seconds, site

UNIT = DEPLOY / "systemd" / "hitl.service"
CREDENTIALS = "/run/credentials/hitl.service"


def settings() -> dict[str, list[str]]:
    """What the unit says, the values of each setting."""
    said: dict[str, list[str]] = defaultdict(list)
    for line in UNIT.read_text().splitlines():
        name, is_setting, value = line.partition("=")
        if is_setting and not line.startswith("#"):
            said[name].append(value)
    return said


def assignments(file: Path) -> dict[str, str]:
    """What an environment file says."""
    lines = file.read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def test_systemd_understands_it(tmp_path: Path) -> None:
    assert {"Unit", "Service", "Install"} == {line[1:-1] for line in UNIT.read_text().splitlines() if line[:1] == "["}
    analyze = shutil.which("systemd-analyze")
    if analyze is not None:
        # The unit of another machine: what it starts is not here.
        program = settings()["ExecStart"][0].split()[0]
        here = UNIT.read_text().replace(program, "/bin/true").replace("=hitl\n", "=root\n")
        copy = tmp_path / UNIT.name
        copy.write_text(here)
        told = subprocess.run([analyze, "verify", copy], capture_output=True, text=True, timeout=100, check=False)
        assert told.returncode == 0, told.stderr
        # It only tells of settings that it does not know.
        assert str(copy) not in told.stderr, told.stderr


def test_a_service_starts_and_ends_as_it_says(tmp_path: Path) -> None:
    unit = settings()
    (start,) = unit["ExecStart"]
    with site(tmp_path) as machine:
        machine.write("/my_agent.py", "async def agent(message, state):\n    return message, state\n")
        given = assignments(DEPLOY / "systemd" / "hitl.env")
        loaded = dict(credential.split(":") for credential in unit["LoadCredential"])
        assert loaded.keys() == {"api_key", "pgpass"}
        machine.write(f"{CREDENTIALS}/api_key", KEY)
        line = machine.passfile("db.example:5432:hitl:hitl:x", given["HITL_STORE"])
        machine.write(f"{CREDENTIALS}/pgpass", line)
        for pair in shlex.split(" ".join(unit["Environment"])):
            name, value = pair.split("=", 1)
            given[name] = value.replace("%d", CREDENTIALS)
        program, *arguments = shlex.split(start)
        assert Path(program).name == "hitl"
        with Deployed(arguments, machine.environment(given)) as server:
            server.wait_for_line(LISTENS)
            assert server.api.get("/sessions").status_code == 200
            # The main process alone is told (KillMode=mixed).
            server.signal(signal.SIGTERM)
            assert server.wait(seconds(unit["TimeoutStopSec"][0])) == 0
    assert unit["KillMode"] == ["mixed"]
    assert seconds(unit["TimeoutStopSec"][0]) > float(given["HITL_SHUTDOWN_TIMEOUT"])
