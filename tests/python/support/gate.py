"""A place where an agent waits until the test lets it go on."""

from __future__ import annotations

import select
import socket
from types import TracebackType
from typing import Self

PATIENCE = 100.0
"""Seconds in which an agent must come, or go."""


class Gate:
    """Listens on loopback; the play `hold` connects to `port` and stays at work until it is released."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(PATIENCE)
        self._inside: list[socket.socket] = []

    @property
    def port(self) -> int:
        port: int = self._listener.getsockname()[1]
        return port

    def wait_for_arrival(self) -> None:
        """Return once one more agent holds at the gate."""
        connection, _ = self._listener.accept()
        connection.settimeout(PATIENCE)
        self._inside.append(connection)

    def was_reached(self) -> bool:
        """Whether one more agent has come by now; it holds at the gate, or is gone already."""
        if not select.select([self._listener], [], [], 0)[0]:
            return False
        self.wait_for_arrival()
        return True

    def release(self, word: str = "go") -> None:
        """Let the agent that arrived first go on."""
        with self._inside.pop(0) as connection:
            connection.sendall(f"{word}\n".encode())

    def wait_until_gone(self) -> None:
        """Return once the agent that arrived first is not there any more: it was cancelled, or its process ended."""
        with self._inside.pop(0) as connection:
            try:
                if connection.recv(1) != b"":
                    raise AssertionError("the agent said something")
            except ConnectionResetError:
                return

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for connection in self._inside:
            connection.close()
        self._listener.close()
