"""What contenders that are servers have in common: a free port, a process, waiting until it is up."""

from __future__ import annotations

import http.client
import os
import socket
import subprocess
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

PATIENCE = 120.0
"""Seconds until a server has to be up."""
TO_STOP = 10.0
"""Seconds it has to end when it is told to."""


def free_ports(count: int) -> list[int]:
    """Different ports that nobody listens on."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [each.getsockname()[1] for each in sockets]


class Child:
    """A server that was started; what it prints goes to our log."""

    def __init__(self, command: Sequence[str | Path], directory: Path, **variables: str) -> None:
        self._process = subprocess.Popen(
            command, cwd=directory, stdin=subprocess.DEVNULL, stdout=2, env={**os.environ, **variables}
        )
        self._name = Path(command[0]).name

    def wait_for(self, port: int, path: str | None = None) -> None:
        """Until it accepts connections there, and answers `path` with a 200; RuntimeError when it never does."""
        deadline = time.monotonic() + PATIENCE
        while not _is_up(port, path):
            if self._process.poll() is not None:
                raise RuntimeError(f"{self._name} ended with {self._process.returncode}; its log says why")
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self._name} was not up after {PATIENCE:g} s; its log says why")
            time.sleep(0.1)

    def stop(self) -> None:
        """Ask it to end, then make it."""
        self._process.terminate()
        try:
            self._process.wait(TO_STOP)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _is_up(port: int, path: str | None) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.connect()
        if path is None:
            return True
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
