"""The bank: a server is killed while the bank has booked and not answered, and the money has moved once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from examples.bank import Bank
from tests.python.support.api import ok
from tests.python.support.served import Served

AGENT = "examples.bank_transfer:agent"
YES = {"approved": True}


class SlowBank(Bank):
    """One that books, and does not say so before it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.has_booked = threading.Event()
        self.may_reply = threading.Event()

    def before_reply(self) -> None:
        self.has_booked.set()
        self.may_reply.wait(60)


@pytest.fixture
def bank() -> Iterator[SlowBank]:
    with SlowBank() as bank:
        serving = threading.Thread(target=bank.serve_forever)
        serving.start()
        yield bank
        bank.may_reply.set()
        bank.shutdown()
        serving.join()


class Teller:
    """A server on one file, killed in the middle of a call and started again."""

    def __init__(self, folder: Path, bank: SlowBank) -> None:
        self._bank = bank
        self._options: dict[str, Any] = {
            "store": f"sqlite:{folder / 'hitl.db'}",
            "environment": {"BANK_URL": bank.url},
        }
        self.asked: dict[str, Any] = {}

    def killed_in(self, content: str) -> str:
        """Say and approve it; the server dies when the bank has booked. The session's id."""
        with Served(AGENT, **self._options) as server:
            session_id = server.api.create()
            (self.asked,) = server.api.settled(session_id, content, 1)["interrupts"]
            ok(server.api.resume(session_id, self.asked["interrupt_id"], YES))
            assert self._bank.has_booked.wait(60)
            server.kill()
        self._bank.may_reply.set()
        return session_id

    def again(self) -> Served:
        """The server, started once more."""
        return Served(AGENT, **self._options)


@pytest.fixture
def teller(tmp_path: Path, bank: SlowBank) -> Teller:
    return Teller(tmp_path, bank)


@pytest.mark.parametrize(
    ("answer", "said", "received"),
    [
        ({"outcome": "done", "result": "booked, says the bank"}, "Done: booked, says the bank.", 1),
        ({"outcome": "not_done"}, "Done: 30000 cents to savings, receipt R-1.", 2),
    ],
    ids=["done", "not_done, by mistake"],
)
def test_a_person_is_asked_what_came_of_it_and_the_money_moves_once(
    teller: Teller, bank: SlowBank, answer: dict[str, Any], said: str, received: int
) -> None:
    session_id = teller.killed_in("transfer 30000 to savings")
    assert teller.asked["message"] == "300.00 EUR to savings"
    with teller.again() as server:
        (unknown,) = server.api.wait(session_id)["interrupts"]
        assert (unknown["type"], unknown["payload"]["tool_name"]) == ("unknown_outcome", "transfer")
        assert unknown["payload"]["tool_args"] == {"cents": 30_000, "to": "savings"}
        assert bank.received == 1
        ok(server.api.resume(session_id, unknown["interrupt_id"], answer))
        assert server.api.wait(session_id)["response"]["content"] == said
    assert bank.accounts == {"checking": 170_000, "savings": 80_000, "rent": 0}
    assert (bank.received, len(bank.booked)) == (received, 1)


def test_where_the_bank_knows_the_key_nobody_is_asked_again(teller: Teller, bank: SlowBank) -> None:
    session_id = teller.killed_in("pay 40000 to rent")
    with teller.again() as server:
        session = server.api.wait(session_id)
    assert session["response"]["content"] == "Done: 40000 cents to rent, receipt R-1."
    assert bank.accounts == {"checking": 160_000, "savings": 50_000, "rent": 40_000}
    assert (bank.received, len(bank.booked)) == (2, 1)
