"""hitl/worker/inprocess.py and hitl/driver/output.py: turns in a thread of somebody's program."""

import asyncio
import io
import logging
import select
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from hitl import ChatMessage, interrupt
from hitl.driver import output
from hitl.errors import AgentLoadError
from hitl.worker import protocol
from hitl.worker.inprocess import InProcessWorker
from tests.python.unit.server_end import ServerEnd
from tests.python.unit.worker_agents import State, greeter, printer, reply, stubborn

PATIENCE = 60.0


class Served(ServerEnd):
    """A worker in a thread, and the server's end of its channel."""

    def __init__(self, agent: Any) -> None:
        super().__init__()
        self.thread = InProcessWorker(agent, self.worker.detach())
        self.thread.start()
        self.expect("hello")

    def __exit__(self, *exc_info: object) -> None:
        self.thread.stop(10)
        super().__exit__(*exc_info)


@contextmanager
def own_streams() -> Iterator[dict[str, io.StringIO]]:
    """The program's own output, inside the test: pytest puts its own streams in place after the fixtures ran."""
    own = {"stdout": io.StringIO(), "stderr": io.StringIO()}
    before = {name: getattr(sys, name) for name in own}
    try:
        for name, stream in own.items():
            setattr(sys, name, stream)
        yield own
        assert {name: getattr(sys, name) for name in own} == own, "the streams were not put back"
    finally:
        for name, stream in before.items():
            setattr(sys, name, stream)


def test_it_serves_a_live_object() -> None:
    with Served(greeter) as server:
        server.turn()
        server.open_interrupt()
        server.expect("waiting")
        server.answer("i1", value="Ada")
        assert server.end()["response"]["content"] == "Ada"


def test_the_agent_is_the_callers_object_not_a_copy() -> None:
    seen = []

    async def agent(message: ChatMessage, state: State) -> tuple[ChatMessage, State]:
        seen.append(threading.current_thread())
        return reply(message, state, "ok")

    with Served(agent) as server:
        server.turn()
        server.end()
    assert seen[0] is not threading.current_thread()


def test_a_wrong_agent_is_an_error_at_once() -> None:
    with pytest.raises(AgentLoadError, match="is of type int"):
        InProcessWorker(42, 0)


def test_stop_cancels_what_runs_and_ends_the_thread() -> None:
    cancelled = threading.Event()

    async def agent(message: ChatMessage, state: State) -> Any:
        try:
            await interrupt({"type": "q"})
        except asyncio.CancelledError:
            cancelled.set()
            raise

    server = Served(agent)
    server.turn()
    server.open_interrupt()
    server.expect("waiting")
    server.thread.stop(10)
    assert cancelled.is_set()
    assert server.expect("cancelled")["left"] == 0
    assert server.receive() is None
    server.thread.stop()  # again: nothing
    server.socket.close()


def test_what_had_come_by_then_is_heard_before_it_stops() -> None:
    """As that a turn's end is stored: who traces tells of the turn then, and never if it is stopped before."""
    is_busy, may_go_on = threading.Event(), threading.Event()

    def busy() -> None:
        is_busy.set()
        may_go_on.wait(PATIENCE)

    server = Served(greeter)
    server.turn()
    server.open_interrupt()
    server.expect("waiting")
    server.answer("i1", value="Ada")
    end = server.expect("end")
    loop = server.thread._loop
    assert loop is not None
    loop.call_soon_threadsafe(busy)
    assert is_busy.wait(PATIENCE)
    server.ack(end)
    server.thread.stop(0)  # it is asked to, and hears of the end and of this at once
    may_go_on.set()
    assert server.receive() is None  # no turn was cancelled
    server.thread.stop(10)
    server.socket.close()


def test_the_end_of_the_channel_ends_the_thread_not_the_program() -> None:
    with own_streams():
        server = Served(stubborn)
        server.turn()
        server.open_interrupt()
        server.expect("waiting")
        server.socket.close()
        server.thread.stop(10)
    assert not [thread for thread in threading.enumerate() if thread.name == "hitl worker"]


def test_a_server_that_goes_before_it_has_listened_is_not_told_of() -> None:
    """One that could not start, and says so itself: what it left unread is a reset of the channel, not its end."""
    with own_streams() as own:
        ends = ServerEnd()
        worker = InProcessWorker(greeter, ends.worker.detach()).start()
        assert select.select([ends.socket], [], [], PATIENCE)[0], "the first word has come, and nobody reads it"
        [thread] = [thread for thread in threading.enumerate() if thread.name == "hitl worker"]
        ends.socket.close()
        thread.join(PATIENCE)
        worker.stop(PATIENCE)
    assert own["stderr"].getvalue() == ""


def test_a_worker_that_cannot_begin_ends_its_channel(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(agent: Any) -> str:
        raise OSError("a file has gone")

    monkeypatch.setattr("hitl.worker.inprocess.code_version", fails)
    with own_streams() as own:
        ends = ServerEnd()
        worker = InProcessWorker(greeter, ends.worker.detach()).start()
        assert ends.receive() is None
        worker.stop(10)
    assert "a file has gone" in own["stderr"].getvalue()
    ends.socket.close()


def test_a_turn_that_exits_does_not_end_the_program() -> None:
    def agent(message: ChatMessage, state: State) -> Any:
        raise SystemExit(3)

    with Served(agent) as server:
        server.turn()
        while (frame := server.receive()) and frame["frame"] == "log":
            pass
        assert frame is not None
        assert frame["result"] == {"error": {"type": "SystemExit", "message": "3"}}
        server.ack(frame)
        server.turn("t2")


def test_a_turn_that_cannot_be_made_leaves_the_others_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it is: the only worker of the program must not go with it."""

    def fails(*args: Any, **options: Any) -> None:
        raise AssertionError("ours")

    with own_streams() as own, Served(greeter) as server:
        server.turn("t1")
        server.open_interrupt()
        server.expect("waiting")
        with monkeypatch.context() as broken:
            broken.setattr(protocol, "RunningTurn", fails)
            server.turn("t2")
            error = server.end("t2")["error"]
        assert error == {"type": "AssertionError", "message": "ours", "code": "journal_unreadable"}
        assert "Traceback" in own["stderr"].getvalue()
        server.answer("i1", value="Ada")
        assert server.end("t1")["response"]["content"] == "Ada"


def test_turns_print_to_the_server_and_the_program_to_its_own_output() -> None:
    with own_streams() as streams, Served(printer) as server:
        print("before")
        server.turn(content="you")
        text = {"stdout": "", "stderr": ""}
        while (frame := server.receive()) and frame["frame"] == "log":
            text[frame["stream"]] += frame["text"]
        assert frame is not None
        server.ack(frame)
        print("after")
        sys.stderr.write("own error\n")
    assert text == {"stdout": "to you\nhalf a line\nfrom a thread\n", "stderr": "warn\nunfinished\n"}
    assert streams["stdout"].getvalue() == "before\nafter\n"
    assert streams["stderr"].getvalue() == "own error\n"


def test_handlers_of_logging_write_by_turn_as_well() -> None:
    logger = logging.getLogger("tests.of_the_router")
    logger.propagate = False

    async def agent(message: ChatMessage, state: State) -> tuple[ChatMessage, State]:
        logger.warning("inside")
        return reply(message, state, "ok")

    with own_streams() as streams:
        handler = logging.StreamHandler(streams["stderr"])
        logger.addHandler(handler)
        try:
            with Served(agent) as server:
                logger.warning("outside")
                server.turn()
                frame = server.expect("log")
                server.end()
            assert (frame["stream"], frame["text"]) == ("stderr", "inside\n")
            assert handler.stream is streams["stderr"]
        finally:
            logger.removeHandler(handler)
    assert streams["stderr"].getvalue() == "outside\n"


def test_a_program_that_replaced_a_stream_meanwhile_keeps_it() -> None:
    with own_streams() as streams:
        output.install()
        sys.stdout = other = io.StringIO()
        output.uninstall()
        assert sys.stdout is other
        assert sys.stderr is streams["stderr"]
        sys.stdout = streams["stdout"]


def test_two_workers_share_one_router() -> None:
    with own_streams() as streams:
        output.install()
        router = sys.stdout
        output.install()
        assert sys.stdout is router
        output.uninstall()
        assert sys.stdout is router
        output.uninstall()
        assert sys.stdout is streams["stdout"]


def test_the_router_is_a_stream_like_the_one_it_stands_for(capfd: pytest.CaptureFixture[str]) -> None:
    own = sys.stdout
    output.install()
    try:
        assert sys.stdout.encoding == own.encoding
        assert sys.stdout.fileno() == own.fileno()
        assert sys.stdout.isatty() == own.isatty()
        assert sys.stdout.writable()
        sys.stdout.buffer.write(b"bytes\n")
        print("text", flush=True)
    finally:
        output.uninstall()
    assert capfd.readouterr().out == "bytes\ntext\n"
