"""A real PostgreSQL of a test's own, which it restarts, kills, restores and puts another one in the place of."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from tests.python.support import postgres
from tests.python.support.waiting import eventually
from tools.postgres import binaries, own_environment

SETTINGS = """
listen_addresses = ''
unix_socket_directories = '{home}'
max_connections = 200
shared_buffers = 32MB
"""
# Ends a server when whoever started it has closed its input, be it by its own death.
LOOKS_AFTER = """
import json, shutil, subprocess, sys
sys.stdin.read()
pg_ctl, home, who = sys.argv[1:]
stop = [pg_ctl, "-D", f"{home}/data", "-m", "immediate", "stop"]
subprocess.run(stop, capture_output=True, cwd="/", **json.loads(who))
shutil.rmtree(home, ignore_errors=True)
"""

ShutDown = Literal["smart", "fast", "immediate"]


class OwnPostgres:
    """One server and its data; it listens on a Unix socket alone."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.socket = home / ".s.PGSQL.5432"
        self.address = f"postgresql://postgres@/postgres?host={home}"
        self._data = home / "data"

    def execute(self, sql: str) -> str:
        return postgres.execute(self.address, sql)

    def start(self) -> None:
        self._control("-l", str(self.home / "log"), "start")

    def stop(self, how: ShutDown) -> None:
        self._control("-m", how, "stop")

    def restart(self, how: ShutDown) -> None:
        """`immediate` is a crash: what has not been written to the log is gone."""
        self._control("-l", str(self.home / "log"), "-m", how, "restart")

    def promote(self) -> None:
        """Be no standby any more."""
        self._control("promote")

    @contextmanager
    def backup(self, *options: str) -> Iterator[OwnPostgres]:
        """One with what is here now, as a base backup takes it; it is not started yet."""
        with _home() as home:
            other = OwnPostgres(home)
            copied = ["pg_basebackup", "-D", str(other._data), "-h", str(self.home), "-U", "postgres"]
            _run(*copied, "-X", "stream", "-c", "fast", "--no-sync", *options)
            other.set(SETTINGS.format(home=home))
            yield other

    @contextmanager
    def standby(self) -> Iterator[OwnPostgres]:
        """One that has what this one has; no commit here is answered before it is there too."""
        with self.backup("-R") as other:
            other.start()
            self.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
            self.execute("SELECT pg_reload_conf()")
            eventually(lambda: self.execute("SELECT sync_state FROM pg_stat_replication"), "sync")
            yield other

    def set(self, *settings: str) -> None:
        """Lines of its configuration, for its next start; the last of a name counts."""
        with (self._data / "postgresql.conf").open("a") as file:
            file.writelines(f"{line}\n" for line in settings)

    def signals(self, name: str) -> None:
        """At its next start it is to recover, or to stand by: `recovery` or `standby`."""
        (self._data / f"{name}.signal").touch()

    def take_the_place_of(self, other: OwnPostgres) -> None:
        """Be started where `other` was, which has been stopped."""
        self.home, self.socket, self.address = other.home, other.socket, other.address
        self.set(f"unix_socket_directories = '{other.home}'")
        self.start()

    @property
    def is_primary(self) -> bool:
        """Whether it takes writes."""
        return self.execute("SELECT pg_is_in_recovery()") == "f"

    def _control(self, *arguments: str) -> None:
        _run("pg_ctl", "-D", str(self._data), "-w", "-t", "60", *arguments)


@contextmanager
def own_postgres() -> Iterator[OwnPostgres]:
    """One that is empty; it goes afterwards."""
    with _home() as home:
        made = OwnPostgres(home)
        _run("initdb", "-D", str(made._data), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "-N")
        made.set(SETTINGS.format(home=home))
        made.start()
        yield made


@contextmanager
def _home() -> Iterator[Path]:
    home = Path(tempfile.mkdtemp(prefix="hitl-own-pg-"))
    if os.getuid() == 0:
        shutil.chown(home, "nobody")
    home.chmod(0o755)
    arguments = [str(binaries() / "pg_ctl"), str(home), json.dumps(_nobody())]
    looks_after = subprocess.Popen(
        [sys.executable, "-c", LOOKS_AFTER, *arguments], stdin=subprocess.PIPE, env=own_environment()
    )
    try:
        yield home
    finally:
        looks_after.communicate()
        shutil.rmtree(home, ignore_errors=True)


def _run(program: str, *arguments: str) -> None:
    command = [str(binaries() / program), *arguments]
    # What it leaves running must not hold an end of a pipe.
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
        timeout=90,
        env=own_environment(),
        **_nobody(),
    )
    assert done.returncode == 0, f"{program}: {done.stdout}{done.stderr}"


def _nobody() -> dict[str, Any]:
    """PostgreSQL does not run as root. The group of `nobody` has another name from system to system."""
    if os.getuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
