"""The fuzz can see: a runtime without the rule it rests on is found out."""

from __future__ import annotations

import gc

import pytest

from hitl.turn.order import Order
from hitl.turn.schedule import NumberedFuture, NumberedTask
from tests.python.replay.crashes import Report, record_and_replay, together
from tests.python.replay.loops import on_own_loop
from tests.python.replay.programs import generate

# A turn that went astray leaves coroutines behind that wait for ever. When they are collected their loop is closed, and
# what they do then fails: in asyncio's own queue on 3.13.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


def fuzz(agents: int) -> Report:
    report = on_own_loop(together(record_and_replay(seed, generate(seed)) for seed in range(agents)))
    gc.collect()  # in the test that left it, and not in the next one
    print(report.text())  # shown when the test fails
    return report


def test_without_quiescence_between_deliveries_replays_diverge(monkeypatch: pytest.MonkeyPatch) -> None:
    def is_quiet(order: Order) -> bool:
        return not (order.turn.closed or order.turn.is_over)

    monkeypatch.setattr(Order, "_is_quiet", is_quiet)
    assert len(fuzz(25).problems) > 25


def test_with_several_deliveries_at_once_replays_diverge(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is recorded is served as fast as it can be: the same results, in the same order, and yet another way."""

    def advance(order: Order) -> bool:
        while order._deliveries:
            order.tell(order._deliveries.popleft())
        return one_thing(order)

    one_thing = Order._advance
    monkeypatch.setattr(Order, "_advance", advance)
    assert len(fuzz(25).problems) > 5


def test_with_sets_in_the_order_of_addresses_replays_diverge(monkeypatch: pytest.MonkeyPatch) -> None:
    for numbered in (NumberedTask, NumberedFuture):
        monkeypatch.setattr(numbered, "__hash__", lambda self: id(self) >> 4)
    assert len(fuzz(25).problems) > 5
