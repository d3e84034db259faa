"""Which cells run, and what each comes to."""

from __future__ import annotations

import os
from collections.abc import Iterator

from tests.python.waiting.asks import ASKS
from tests.python.waiting.befores import BEFORES, READ_FOR_EVER
from tests.python.waiting.ledger import Cell

DRIVERS = ("run", "run on uvloop", "server, process", "server, task")
"""The third axis."""

WHOLE = os.environ.get("HITL_TEST_MATRIX") == "1"
SECONDS = float(os.environ.get("HITL_TEST_MATRIX_SECONDS", "100"))
"""What a turn may take until it waits, or ends. Less shows sooner what hangs."""

Triple = tuple[str, str, str]


def pairwise() -> Iterator[Triple]:
    """As few cells as have each pair of values of two axes: the third goes round."""
    for number, before in enumerate(BEFORES):
        for other, ask in enumerate(ASKS):
            yield before, ask, DRIVERS[(number + other) % len(DRIVERS)]


def whole() -> Iterator[Triple]:
    """Every cell."""
    for before in BEFORES:
        for ask in ASKS:
            for driver in DRIVERS:
                yield before, ask, driver


def selected() -> list[Triple]:
    """The cells that run."""
    return list(whole() if WHOLE else pairwise())


def rounds() -> list[int]:
    """For tests of many cells on one server: each round has all of `BEFORES`, and an ask for each of them."""
    return list(range(len(ASKS) if WHOLE else 1))


def of_round(number: int) -> list[tuple[str, str]]:
    """Before and ask of its cells."""
    asks = list(ASKS)
    return [(before, asks[(number + place) % len(asks)]) for place, before in enumerate(BEFORES)]


_TWO_AT_ONCE = ("gather", "TaskGroup", "wait", "as_completed", "two gated", "in flight", "inside")


def open_at_once(cell: Cell) -> int:
    """How many questions are open when the turn first waits."""
    return 2 if cell.ask in _TWO_AT_ONCE else 1


def answers(cell: Cell) -> list[str]:
    """What the turn returns."""
    match cell.ask:
        case "gated":
            return ["acted a"]
        case "two gated":
            return ["acted a", "acted b"]
        case "in flight":
            return sorted(["acted b", f"{cell.name} a"])
        case "inside":
            return sorted(["answer b", f"{cell.name} a"])
        case "semaphore":
            return ["answer a", "answer b"]
        case _:
            return [f"answer {name}" for name in "ab"[: open_at_once(cell)]]


def holds(cell: Cell, answered: list[str]) -> str | None:
    """What is in flight, and held by the peer, once these are answered."""
    if cell.before == "child awaited" and not answered:
        return f"{cell.name} child"
    if cell.ask == "in flight" and answered == ["a"]:
        return f"{cell.name} a"
    if cell.ask == "inside" and answered == ["a"] and cell.before not in READ_FOR_EVER:
        return f"{cell.name} a"
    return None


def check_ledger(cell: Cell) -> None:
    """Every step ran once, and none was cut."""
    expected = {"first", "last"}
    if cell.ask in ("gated", "two gated", "in flight"):
        expected |= {f"{name} {what}" for name in "ab"[: open_at_once(cell)] for what in ("began", "ended")}
    if cell.ask == "inside":
        expected |= {"a began", "a ended"}
    if cell.before == "child awaited":
        expected |= {"child began", "child ended"}
    noted = {line: count for line, count in cell.noted().items() if not line.startswith("in process ")}
    assert noted == dict.fromkeys(expected, 1)
