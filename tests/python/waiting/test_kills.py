"""SIGKILL of the server, or of every worker, while turns wait: each goes on where it stood when it is answered."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.python.support.api import ok
from tests.python.waiting.cells import SECONDS, holds, of_round, open_at_once, rounds
from tests.python.waiting.drivers import Conversation, serve, until
from tests.python.waiting.ledger import Cell
from tests.python.waiting.peers import Peers

PLACES = 64
"""So many that a turn which keeps its place does not keep others from theirs."""


@pytest.mark.slow
@pytest.mark.parametrize("killed", ["server", "workers"])
@pytest.mark.parametrize("isolation", ["process", "task"])
@pytest.mark.parametrize("number", rounds(), ids=lambda number: f"round-{number}")
def test_turns_that_wait_outlive_a_kill(
    number: int, isolation: str, killed: str, cell_of: Callable[[str, str], Cell], peers: Peers, tmp_path: Path
) -> None:
    store = f"sqlite:{tmp_path / 'hitl.db'}"
    with ExitStack() as stack:
        server = stack.enter_context(serve(store, isolation, workers=PLACES))
        turns = [Conversation(server.api, cell_of(before, ask), peers) for before, ask in of_round(number)]
        for turn in turns:
            turn.start()
        for turn in turns:
            _until_it_asks(turn)
        problems = _not_waiting(turns)
        if killed == "server":
            server.kill()
            server = stack.enter_context(serve(store, isolation, workers=PLACES))
        else:
            for process in {turn.cell.process() for turn in turns}:
                os.kill(process, signal.SIGKILL)
        for turn in turns:
            turn.api = server.api
        problems |= _answered_together(turns, peers)
        if problems and server.is_running:
            server.kill()
    assert problems == {}


def _until_it_asks(turn: Conversation) -> None:
    """Return once all its questions are open and nothing of it is held."""
    held = holds(turn.cell, [])
    if held is not None:
        turn.peers.wait_for_arrival(held, SECONDS)
        turn.peers.release(held)
        until(lambda: turn.cell.noted()["child ended"], 1, "the child")
    questions = open_at_once(turn.cell)
    until(lambda: len(turn.session()["interrupts"] or []), questions, f"questions of {turn.cell.name}")


def _not_waiting(turns: list[Conversation]) -> dict[str, str]:
    """A problem when places are still taken."""
    api = turns[0].api
    try:
        until(lambda: ok(api.get("/health"))["running_workers"], 0, "places that are taken")
    except AssertionError as error:
        return {"before the kill": str(error)}
    return {}


def _answered_together(turns: list[Conversation], peers: Peers) -> dict[str, str]:
    """Answer all of them, side by side; what did not come out, by cell."""
    problems: dict[str, str] = {}
    left = list(turns)
    deadline = time.monotonic() + SECONDS
    while left and time.monotonic() < deadline:
        for turn in list(left):
            session = turn.session()
            if session["status"] == "interrupted":
                held = turn.answer_next(session)
                if held is not None:
                    peers.release(held)
            elif session["status"] != "running":
                left.remove(turn)
                try:
                    turn.check(session)
                except AssertionError as error:
                    problems[turn.cell.name] = str(error)
        time.sleep(0.02)
    return problems | {turn.cell.name: f"answered {turn.answered}, and still not over" for turn in left}
