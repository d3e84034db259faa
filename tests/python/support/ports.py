"""Ports that nobody else gets before the server of a test listens, nor between two of them."""

from __future__ import annotations

import socket
from types import TracebackType
from typing import Self


class ReservedPort:
    """A port of loopback, bound for as long as it is held and never listening. Whoever binds it with `SO_REUSEADDR`, as
    servers do, can listen there; the system gives it to nobody who asks for any port."""

    def __init__(self) -> None:
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind(("127.0.0.1", 0))
        self.number: int = self._socket.getsockname()[1]

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
