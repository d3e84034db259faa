"""HTTP/1.1 with as little client as possible: one blocking connection, or many in one thread.

A client is a generator that yields requests, `(method, path, body)`, and is sent the JSON of each answer, None where it
has no body. An answer of 300 or more is a RuntimeError.
"""

from __future__ import annotations

import json
import re
import selectors
import socket
from collections.abc import Generator
from typing import Any, TypeVar
from urllib.parse import urlsplit

Returned = TypeVar("Returned")
Request = tuple[str, str, Any]
"""Method, path, and what is sent as JSON; None sends nothing."""
Requests = Generator[Request, Any, Returned]
PATIENCE = 120.0
"""Seconds until an answer that does not come is an error."""

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)")


class Connection:
    """One connection, kept open."""

    def __init__(self, url: str) -> None:
        address = urlsplit(url)
        self.socket = socket.create_connection((address.hostname or "", address.port or 80), timeout=PATIENCE)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._host = address.netloc
        self._read = b""
        self._request = ""

    def send(self, request: Request) -> None:
        """Send one request; the answer to the one before has been read."""
        method, path, body = request
        self._request = f"{method} {path}"
        content = b"" if body is None else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nhost: {self._host}\r\n"
        if body is not None:
            head += f"content-type: application/json\r\ncontent-length: {len(content)}\r\n"
        self.socket.sendall(head.encode() + b"\r\n" + content)

    def receive(self) -> tuple[bool, Any]:
        """Read once: whether the answer is whole, and its JSON."""
        piece = self.socket.recv(262_144)
        if not piece:
            raise RuntimeError(f"{self._request}: the server closed the connection")
        self._read += piece
        return self._parse()

    def _parse(self) -> tuple[bool, Any]:
        head, separator, rest = self._read.partition(b"\r\n\r\n")
        if not separator:
            return False, None
        head = head.lower()
        status = int(head[9:12])
        if b"\r\ntransfer-encoding: chunked" in head:
            content = _chunks(rest)
        else:
            length = _LENGTH.search(head)
            size = 0 if length is None else int(length.group(1))
            content = rest[:size] if len(rest) >= size else None
        if content is None:
            return False, None
        self._read = b""
        if status >= 300:
            raise RuntimeError(f"{self._request}: {status} {content.decode(errors='replace')}")
        return True, json.loads(content) if content.strip() else None


def _chunks(rest: bytes) -> bytes | None:
    """The content of a chunked answer, None while its end is missing."""
    content, at = b"", 0
    while True:
        line = rest.find(b"\r\n", at)
        if line < 0:
            return None
        size = int(rest[at:line].partition(b";")[0], 16)
        if len(rest) < line + size + 4:
            return None
        if size == 0:
            return content
        content += rest[line + 2 : line + 2 + size]
        at = line + size + 4


def drive(connection: Connection, client: Requests[Returned]) -> Returned:
    """One client to its end."""
    answer = None
    while True:
        try:
            request = client.send(answer)
        except StopIteration as ended:
            returned: Returned = ended.value
            return returned
        connection.send(request)
        whole = False
        while not whole:
            whole, answer = connection.receive()


def drive_all(url: str, clients: list[Requests[Any]]) -> None:
    """All of them to their ends, each over a connection of its own."""
    with selectors.DefaultSelector() as selector:
        for client in clients:
            connection = Connection(url)
            selector.register(connection.socket, selectors.EVENT_READ, (connection, client))
            _go_on(selector, connection, client, None)
        while selector.get_map():
            ready = selector.select(PATIENCE)
            if not ready:
                raise RuntimeError(f"no answer for {PATIENCE:g} s to any of {len(selector.get_map())} clients")
            for key, _ in ready:
                connection, client = key.data
                whole, answer = connection.receive()
                if whole:
                    _go_on(selector, connection, client, answer)


def _go_on(selector: selectors.BaseSelector, connection: Connection, client: Requests[Any], answer: Any) -> None:
    try:
        connection.send(client.send(answer))
    except StopIteration:
        selector.unregister(connection.socket)
        connection.socket.close()
