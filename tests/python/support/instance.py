"""A PostgreSQL of a test's own, for what is done to whole instances: backups, recovery, standbys."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.python.support.waiting import eventually
from tools.postgres import answers, ask, binaries, demoted

LOG = "log"


@contextmanager
def room() -> Iterator[Path]:
    """A directory that PostgreSQL may write to, whoever runs the tests."""
    home = Path(tempfile.mkdtemp(prefix="hitl-pg-"))
    if os.getuid() == 0:
        shutil.chown(home, "nobody")
    home.chmod(0o755)
    try:
        yield home
    finally:
        shutil.rmtree(home, ignore_errors=True)


class Instance:
    """The server on a data directory, while the `with` block lasts. `settings` are lines of its configuration."""

    def __init__(self, data: Path, *settings: str) -> None:
        self._data = data
        # The path of a socket must be short.
        self._socket = Path(tempfile.mkdtemp(prefix="pg-"))
        if os.getuid() == 0:
            shutil.chown(self._socket, "nobody")
        own = ("listen_addresses=", f"unix_socket_directories={self._socket}", "shared_buffers=16MB", *settings)
        self._settings = [part for setting in own for part in ("-c", setting)]

    @property
    def address(self) -> str:
        """Of the database `postgres`."""
        return f"postgresql://postgres@/postgres?host={self._socket}"

    def ask(self, sql: str) -> str:
        """What it says to that."""
        said = ask(self._socket, sql)
        assert said is not None, self._log()
        return said

    def backup(self, data: Path, *options: str) -> None:
        """A base backup of it, into a directory that is not there yet."""
        command = [binaries() / "pg_basebackup", "-h", self._socket, "-U", "postgres", "-D", data, "-c", "fast"]
        run(*command, *options)

    def _log(self) -> str:
        return (self._data.parent / f"{self._data.name}.{LOG}").read_text()

    def __enter__(self) -> Instance:
        with (self._data.parent / f"{self._data.name}.{LOG}").open("w") as log:
            self._process = subprocess.Popen(
                [binaries() / "postgres", "-D", self._data, *self._settings],
                preexec_fn=demoted,  # noqa: PLW1509 (it makes no lock)
                cwd="/",
                stdout=log,
                stderr=log,
            )
        eventually(lambda: self._process.poll() is not None or answers(self._socket), True)
        assert self._process.poll() is None, self._log()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.send_signal(signal.SIGINT)
        self._process.wait()
        shutil.rmtree(self._socket, ignore_errors=True)


def make(data: Path) -> None:
    """A new, empty instance there."""
    run(binaries() / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "-N")


def run(*command: str | Path) -> None:
    """A program of PostgreSQL, as the user that it runs as."""
    done = subprocess.run(command, preexec_fn=demoted, cwd="/", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
