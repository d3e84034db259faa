"""Server-sent events as a test sees them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx2

if TYPE_CHECKING:
    from tests.python.support.api import Api

Json = dict[str, Any]


@dataclass(frozen=True)
class Sent:
    """One event: its `id:`, its `event:` and its `data:`."""

    id: str
    event: str
    data: Json


class Stream:
    """An open event stream. What happens after it was opened is in it."""

    def __init__(self, response: httpx2.Response) -> None:
        self.response = response
        self._events = self._read()
        self.seen: list[Sent] = []

    def next(self) -> Sent:
        event = next(self._events)
        self.seen.append(event)
        return event

    def __iter__(self) -> Iterator[Sent]:
        """Until the server ends the stream."""
        return self._events

    def until(self, wanted: str | Callable[[Sent], bool]) -> list[Sent]:
        """The events up to and with the first that is `wanted`, deltas left out."""
        events = []
        while True:
            event = self.next()
            if event.event == "message.delta" and wanted != "message.delta":
                continue
            events.append(event)
            if event.event == wanted if isinstance(wanted, str) else wanted(event):
                return events

    def _read(self) -> Iterator[Sent]:
        fields: dict[str, Any] = {"data": []}
        last_id = ""
        for line in self.response.iter_lines():
            if not line:
                if fields["data"]:
                    yield Sent(last_id, fields.get("event", "message"), json.loads("\n".join(fields["data"])))
                fields = {"data": []}
                continue
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if name == "data":
                fields["data"].append(value)
            elif name == "event":
                fields["event"] = value
            elif name == "id":
                last_id = value


@contextmanager
def listen(api: Api, path: str, *, after: str | None = None, timeout: float = 100.0) -> Iterator[Stream]:
    """Open an event stream; a silence of `timeout` seconds fails the test."""
    headers = {"accept": "text/event-stream"} | ({} if after is None else {"last-event-id": after})
    with api.http.stream("GET", path, headers=headers, timeout=timeout) as response:
        if response.status_code != 200:
            response.read()
        assert response.status_code == 200, response.text
        assert response.headers["content-type"].split(";")[0] == "text/event-stream"
        yield Stream(response)
