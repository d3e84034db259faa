"""One request to a server: what to send, and how its answer is read. Nothing here does I/O."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, cast

import httpx2

from hitl.client.arguments import header, path_part
from hitl.client.models import Accepted, Page

Result = TypeVar("Result")


class Absent:
    """The type of `ABSENT`, which is not None: a null body or answer is something else than none."""


ABSENT = Absent()


@dataclass(frozen=True, slots=True)
class Call(Generic[Result]):
    """One request.

    read: turns the answer's JSON (and the response, for its headers) into what the caller gets.
    patience: seconds the server may take on purpose, on top of the client's time-out; None is for ever.
    """

    method: str
    path: str
    read: Callable[[Any, httpx2.Response], Result]
    query: Mapping[str, object] = field(default_factory=dict)
    body: Any = ABSENT
    headers: Mapping[str, str] = field(default_factory=dict)
    patience: float | None = 0.0

    def __iter__(self) -> Generator[Call[Any], Any, Result]:
        """A call is the shortest plan, and `yield from call` inside a plan is its answer."""
        return cast(Result, (yield self))


Plan = Call[Result] | Generator[Call[Any], Any, Result]


def session_path(session_id: str, *rest: str) -> str:
    """The path of a session, or of something below it."""
    return "/".join(["/sessions", path_part("session_id", session_id), *rest])


def interrupt_path(interrupt_id: str, *rest: str) -> str:
    """The path of an interrupt, or of something below it."""
    return "/".join(["/interrupts", path_part("interrupt_id", interrupt_id), *rest])


def given(**members: Any) -> dict[str, Any]:
    """Without those that are None."""
    return {name: value for name, value in members.items() if value is not None}


def keyed(idempotency_key: str | None) -> Mapping[str, str]:
    """The header of an idempotency key, where there is one."""
    return {} if idempotency_key is None else {"Idempotency-Key": header("idempotency_key", idempotency_key)}


def read_accepted(data: Any, _: httpx2.Response) -> Accepted:
    return Accepted.from_json(data)


def read_nothing(data: Any, _: httpx2.Response) -> None:
    return None


def page_of(read_item: Callable[[Any], Result]) -> Callable[[Any, httpx2.Response], Page[Result]]:
    """Reads a page of a list, and where the next one begins."""

    def read(data: Any, response: httpx2.Response) -> Page[Result]:
        following = response.links.get("next", {}).get("url")
        cursor = None if following is None else httpx2.URL(following).params.get("cursor")
        return Page([read_item(entry) for entry in data], cursor)

    return read
