"""worker/child.py as a pool: one process, many turns."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.python.unit.worker_process import Child


def test_a_pool_worker_runs_many_turns_at_once(child: Callable[..., Child]) -> None:
    worker = child("painter", "pool")
    for number in range(20):
        worker.turn(f"t{number}", f"message {number}")
    asked: dict[str, Any] = {}
    waiting: set[str] = set()
    while len(waiting) < 20:
        frame = worker.receive()
        assert frame is not None
        if frame["frame"] == "step":
            worker.ack(frame)
        elif frame["frame"] == "ask":
            asked[frame["turn"]] = frame["interrupt"]["payload"]["prompt"]
            worker.ack(frame, interrupt_id=f"i-{frame['turn']}")
        else:
            assert frame["frame"] == "waiting"
            waiting.add(frame["turn"])
    assert asked == {f"t{number}": f"message {number}" for number in range(20)}
    for number in reversed(range(20)):
        worker.answer(f"i-t{number}", {"hex": f"#{number}"}, turn=f"t{number}")
        assert worker.end(f"t{number}")["response"]["content"] == f"dark #{number}"
    worker.send("shutdown")
    assert worker.exit_code() == 0


def one_that_waits(worker: Child) -> dict[str, Any]:
    """A turn, `t0`, that has asked and waits, while others fail beside it."""
    worker.turn("t0", "refused")
    ask = worker.expect("ask")
    worker.expect("waiting")
    return ask


def it_goes_on(worker: Child, ask: dict[str, Any]) -> None:
    worker.ack(ask, interrupt_id="i1")
    worker.answer("i1", value=None, turn="t0")
    assert worker.end("t0")["error"]["type"] == "TypeError"  # it returned nothing


def test_a_failing_turn_leaves_the_others_alone(child: Callable[..., Child]) -> None:
    worker = child("misbehaving", "pool")
    ask = one_that_waits(worker)
    for number, content in enumerate(["exit", "exit in a child task", "interrupt the keyboard", "raise"], 1):
        worker.turn(f"t{number}", content)
        while (frame := worker.receive()) and frame["frame"] == "log":
            assert (frame["turn"], frame["stream"]) == (f"t{number}", "stderr")
        assert frame is not None
        assert frame["frame"] == "end"
        assert "error" in frame["result"]
        worker.ack(frame)
    worker.ack(ask, interrupt_id="i1")
    worker.answer("i1", value=None, turn="t0")
    while (frame := worker.receive()) and frame["frame"] == "log":
        pass
    assert frame is not None
    assert (frame["frame"], frame["turn"]) == ("end", "t0")


def let_go(worker: Child, turn: str) -> None:
    """The worker says that it has the turn no more, and has another one."""
    worker.expect("cancelled", turn=turn, left=0)
    worker.turn("another", "raise")
    assert heard(worker)["frame"] == "end"
    assert worker.process.poll() is None


def heard(worker: Child) -> dict[str, Any]:
    """The next frame that is no log."""
    while (frame := worker.receive()) is not None and frame["frame"] == "log":
        pass
    assert frame is not None
    return frame


def test_a_turn_whose_end_is_refused_twice_is_let_go_of(child: Callable[..., Child]) -> None:
    worker = child("misbehaving", "pool")
    worker.turn("t1", "task group")
    for _ in range(2):
        end = heard(worker)
        assert end["frame"] == "end"
        worker.send("refused", turn="t1", call=end["call"], code="store_is_full", message="no space")
    let_go(worker, "t1")


@pytest.mark.parametrize("order", ["park", "cancel"])
def test_an_order_that_crosses_the_news_that_a_turn_was_let_go_of_gets_no_second_word(
    child: Callable[..., Child], order: str
) -> None:
    worker = child("misbehaving", "pool")
    worker.turn("t1", "raise")
    worker.send("refused", turn="t1", call=heard(worker)["call"], code="store_is_full", message="no space")
    worker.send("refused", turn="t1", call=heard(worker)["call"], code="store_is_full", message="no space")
    # Sent before the server can have heard of it.
    worker.send(order, turn="t1", message="Turn cancelled")
    assert heard(worker) == {"frame": "cancelled", "turn": "t1", "left": 0}
    # What came now would be taken for a word about this run of the turn, which would be lost while it is at work.
    worker.turn("t1", "refused")
    assert heard(worker)["frame"] == "ask"
    worker.expect("waiting")
    # An order about this one is answered, as is one about a turn that never was here.
    for turn in ("t1", "t2"):
        worker.send("park", turn=turn)
        assert heard(worker) == {"frame": "parked", "turn": turn, "left": 0}


def test_a_turn_that_was_let_go_of_and_comes_back_is_answered_for_again(child: Callable[..., Child]) -> None:
    worker = child("misbehaving", "pool")
    worker.turn("t1", "raise")
    for _ in range(2):
        worker.send("refused", turn="t1", call=heard(worker)["call"], code="store_is_full", message="no space")
    assert heard(worker)["frame"] == "cancelled"
    worker.turn("t1", journal=[{"at": 0, "entry": "pause", "timers": [], "context": GONE}])
    assert heard(worker)["frame"] == "end"  # it could not be opened: nothing of it is here
    worker.send("park", turn="t1")
    assert heard(worker)["frame"] == "parked"


def test_a_turn_that_could_not_be_opened_and_whose_end_is_refused_is_let_go_of(child: Callable[..., Child]) -> None:
    worker = child("misbehaving", "pool")
    worker.turn("t1", journal=[{"at": 0, "entry": "pause", "timers": [], "context": GONE}])
    end = heard(worker)
    assert end["result"]["error"]["code"] == "journal_unreadable"
    worker.send("refused", turn="t1", call=end["call"], code="store_is_full", message="no space")
    worker.send("park", turn="t1")  # it crossed that
    assert heard(worker) == {"frame": "cancelled", "turn": "t1", "left": 0}
    worker.turn("t2", "refused")
    assert heard(worker)["frame"] == "ask"


@pytest.mark.parametrize("content", ["heard", "muted"])
def test_a_turn_that_cannot_be_ended_is_let_go_of(child: Callable[..., Child], content: str) -> None:
    worker = child("saboteur", "pool")
    worker.turn("t1", content)
    worker.expect("cancelled", turn="t1", left=0)
    worker.turn("t2")
    worker.expect("cancelled", turn="t2", left=0)
    worker.send("shutdown")
    assert worker.exit_code() == 0
    assert worker.stderr.count("ZeroDivisionError") == 2


def test_a_turn_that_closes_standard_error_leaves_the_others_alone(child: Callable[..., Child]) -> None:
    worker = child("misbehaving", "pool")
    ask = one_that_waits(worker)
    worker.turn("t1", "close standard error")
    assert worker.end("t1")["error"]["message"] == "heard all the same"
    worker.turn("t2", "raise")
    assert worker.end("t2")["error"]["message"] == "no such city"
    it_goes_on(worker, ask)
    worker.send("shutdown")
    assert worker.exit_code() == 0
    assert all(text in worker.stderr for text in ("heard all the same", "ZeroDivisionError", "no such city"))


def test_what_cannot_be_told_or_logged_is_no_matter_of_any_turn(child: Callable[..., Child]) -> None:
    worker = child("misbehaving", "pool")
    ask = one_that_waits(worker)
    worker.turn("t1", "close standard error, and leave what cannot be told")
    worker.ack(worker.expect("step"))
    assert worker.end("t1")["response"]["content"] == "went on"
    it_goes_on(worker, ask)
    worker.send("shutdown")
    assert worker.exit_code() == 0
    assert "what happened in a turn could not be told" in worker.stderr
    assert "ZeroDivisionError" in worker.stderr


GONE = {"$hitl": "dataclass", "type": "shop_of_last_year:Customer", "value": {"name": "Ada"}}


def test_a_turn_that_cannot_be_opened_leaves_the_others_alone(child: Callable[..., Child]) -> None:
    worker = child("greeter", "pool")
    worker.turn("t1")
    worker.open_interrupt()
    worker.expect("waiting")
    worker.turn("t2", journal=[{"at": 0, "entry": "pause", "timers": [], "context": GONE}])
    error = worker.end("t2")["error"]
    assert (error["type"], error["code"]) == ("UnreadableJournal", "journal_unreadable")
    assert "the class shop_of_last_year.Customer, which is not there" in error["message"]
    worker.answer("i1", value="Ada")
    assert worker.end("t1")["response"]["content"] == "Ada"


def test_a_pool_worker_that_is_told_to_shut_down_finishes_its_turns(child: Callable[..., Child]) -> None:
    worker = child("greeter", "pool")
    worker.turn()
    worker.open_interrupt()
    worker.expect("waiting")
    worker.send("shutdown")
    worker.answer("i1", value="Ada")
    assert worker.end()["response"]["content"] == "Ada"
    assert worker.exit_code() == 0


def test_a_cancelled_turn_of_a_pool_leaves_no_trace(child: Callable[..., Child]) -> None:
    worker = child("greeter", "pool")
    worker.turn("t1")
    worker.open_interrupt("i1")
    worker.expect("waiting")
    worker.send("cancel", turn="t1", message="Turn cancelled")
    worker.answer("i1", value="late")
    worker.turn("t2")
    # That the first one stopped may be said before or after what the second one says.
    said = {(frame["turn"], frame["frame"]) for frame in (worker.receive() for _ in range(3)) if frame is not None}
    assert said == {("t1", "cancelled"), ("t2", "ask"), ("t2", "waiting")}


def test_what_turns_print_carries_their_id(child: Callable[..., Child]) -> None:
    worker = child("printer", "pool")
    worker.turn("t1", "one")
    logs = []
    while (frame := worker.receive()) and frame["frame"] == "log":
        assert frame["turn"] == "t1"
        logs.append((frame["stream"], frame["text"]))
    assert frame is not None
    assert frame["frame"] == "end"
    assert "".join(text for stream, text in logs if stream == "stdout") == "to one\nhalf a line\nfrom a thread\n"
    assert "".join(text for stream, text in logs if stream == "stderr") == "warn\nunfinished\n"
    assert all(text.endswith("\n") for _, text in logs)
    worker.ack(frame)
    worker.send("shutdown")
    assert worker.exit_code() == 0
    assert (worker.stdout, worker.stderr) == ("", "")
