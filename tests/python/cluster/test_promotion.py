"""A standby that lags takes the database's place: a turn that has lost nothing goes on, and others begin anew."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.python.support.api import Json, ok, result
from tests.python.support.served import Served
from tests.python.support.waiting import eventually
from tools import postgres

QUESTIONS: list[Json] = [{"type": "free", "question": "first?"}, {"type": "free", "question": "then?"}]


class Instance:
    """A PostgreSQL of a test's own, and a copy of its data that can take its place."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.run("initdb", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "-D", home / "data")
        (home / "data" / "pg_hba.conf").write_text("local all all trust\nlocal replication all trust\n")
        self.process = self.start("data")
        self.address = f"postgresql://postgres@/postgres?host={home}"

    def run(self, name: str, *arguments: str | Path) -> None:
        command = [postgres.binaries() / name, *arguments]
        subprocess.run(command, preexec_fn=postgres.demoted, cwd="/", check=True, capture_output=True)

    def start(self, data: str) -> subprocess.Popen[bytes]:
        place = ("-D", self.home / data, "-c", "listen_addresses=", "-c", f"unix_socket_directories={self.home}")
        with (self.home / f"{data}.log").open("w") as log:
            process = subprocess.Popen(
                [postgres.binaries() / "postgres", *place],
                preexec_fn=postgres.demoted,  # noqa: PLW1509
                cwd="/",
                stdout=log,
                stderr=log,
            )
        eventually(lambda: postgres.answers(self.home), expected=True)
        return process

    def copy(self) -> None:
        """What is there now, for `fail_over`."""
        self.run("pg_basebackup", "-h", self.home, "-U", "postgres", "-c", "fast", "-D", self.home / "standby")
        (self.home / "standby" / "standby.signal").touch()

    def fail_over(self) -> None:
        self.stop()
        self.process = self.start("standby")
        self.run("pg_ctl", "promote", "-w", "-D", self.home / "standby")

    def stop(self) -> None:
        """At once, as it is."""
        self.process.send_signal(signal.SIGQUIT)
        self.process.wait()


@pytest.fixture
def instance() -> Iterator[Instance]:
    home = Path(tempfile.mkdtemp(prefix="hitl-pg-"))
    if os.getuid() == 0:
        shutil.chown(home, "nobody")
    home.chmod(0o755)
    try:
        instance = Instance(home)
        try:
            yield instance
        finally:
            instance.stop()
    finally:
        shutil.rmtree(home, ignore_errors=True)


def test_a_turn_begins_anew_of_which_something_is_lost_and_no_other(instance: Instance) -> None:
    with Served("playbook", store=instance.address, park_after=600, checked=False) as server:
        api = server.api
        whole, (asked,) = api.asked("ask", QUESTIONS[0])
        session_id, (first,) = api.asked("ask_in_turn", QUESTIONS)
        instance.copy()
        ok(api.resume(session_id, first["interrupt_id"], "taken back"))
        (then,) = api.wait(session_id)["interrupts"]
        assert then["payload"] == QUESTIONS[1]
        instance.fail_over()
        server.wait_for_line("another database has taken the place")
        (again,) = api.session(session_id)["interrupts"]
        assert again["interrupt_id"] == first["interrupt_id"]
        ok(api.resume(session_id, again["interrupt_id"], "kept"))
        (then,) = api.wait(session_id)["interrupts"]
        ok(api.resume(session_id, then["interrupt_id"], "then"))
        assert result(api.wait(session_id)) == ["kept", "then"]
        server.wait_for_line("it begins anew")
        ok(api.resume(whole, asked["interrupt_id"], "yes"))
        assert result(api.wait(whole)) == "yes"
        assert sum("it begins anew" in line for line in server.lines) == 1
