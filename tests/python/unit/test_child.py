"""worker/child.py: real processes, a real socket, real frames."""

import json
import os
import platform
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable

import pytest

import hitl
from hitl.driver.frames import PROTOCOL
from tests.python.unit.worker_process import ROOT, SCRIPT, Child


def test_it_says_hello_first() -> None:
    with Child("echo") as child:
        child.expect(
            "hello",
            protocol=PROTOCOL,
            pid=child.process.pid,
            python=platform.python_version(),
            library=hitl.__version__,
            code="code-1",
            replay=True,
        )


def test_it_ends_where_the_server_is_gone_and_with_it_whoever_reads_what_it_says() -> None:
    """A server that was killed while the worker began: the channel is broken, and so is standard error."""
    ours, theirs = socket.socketpair()
    reads, says = os.pipe()
    ours.close()
    os.close(reads)
    command = [sys.executable, "-c", SCRIPT, str(theirs.fileno()), f"{__package__}.worker_agents:echo", "turn"]
    process = subprocess.Popen(command, cwd=ROOT, pass_fds=[theirs.fileno()], stderr=says)
    os.close(says)
    theirs.close()
    try:
        assert process.wait(timeout=100) == 70
    finally:
        process.kill()
        process.wait()


def test_a_turn_ends_with_response_and_state_and_then_the_process(child: Callable[..., Child]) -> None:
    worker = child("echo")
    worker.turn(content="hé", state=[{"role": "system", "content": "be brief"}])
    response = {"role": "assistant", "content": "hé after 1"}
    assert worker.end() == {
        "response": response,
        "kept": 1,
        "state": [{"role": "user", "content": "hé"}, response],
    }
    assert worker.receive() is None
    assert worker.exit_code() == 0
    assert worker.stderr == ""


def test_steps_and_questions_in_order(child: Callable[..., Child]) -> None:
    worker = child("painter")
    worker.turn(content="Which?")
    step = worker.expect("step", turn="t1", result={"value": "dark"})
    assert step["step"]["path"] == "0#1"
    worker.ack(step)
    ask = worker.open_interrupt("i1")
    assert ask["step"]["path"] == "0#2"
    assert ask["interrupt"]["type"] == "color_picker"
    assert ask["interrupt"]["payload"] == {"type": "color_picker", "prompt": "Which?"}
    assert ask["interrupt"]["agent"] == "painter"
    assert ask["call"] != step["call"]
    worker.expect("waiting", turn="t1")
    worker.answer("i1", value={"hex": "#fff"})
    assert worker.end()["response"]["content"] == "dark #fff"
    assert worker.exit_code() == 0


@pytest.mark.parametrize("agent", ["sync_painter", "greeter"])
def test_every_shape_of_agent_can_ask(child: Callable[..., Child], agent: str) -> None:
    worker = child(agent)
    worker.turn()
    worker.open_interrupt()
    worker.expect("waiting")
    worker.answer("i1", value={"hex": "#000"})
    assert "#000" in worker.end()["response"]["content"]
    assert worker.exit_code() == 0


def test_the_loser_of_a_race_is_withdrawn(child: Callable[..., Child]) -> None:
    worker = child("racer")
    worker.turn(content="and go on")
    worker.open_interrupt("left")
    worker.open_interrupt("right")
    worker.expect("waiting")
    worker.answer("right", value="right won")
    worker.expect("withdraw", turn="t1", interrupt_id="left")
    worker.ack(worker.expect("step"))
    assert worker.end()["response"]["content"] == "right won"


def test_what_is_open_when_the_agent_returns_is_not_withdrawn_the_end_cancels_it(child: Callable[..., Child]) -> None:
    worker = child("racer")
    worker.turn()
    worker.open_interrupt("left")
    worker.open_interrupt("right")
    worker.expect("waiting")
    worker.answer("right", value="right won")
    assert worker.end()["response"]["content"] == "right won"


def test_a_question_withdrawn_before_it_is_committed_is_withdrawn_after(child: Callable[..., Child]) -> None:
    worker = child("racer")
    worker.turn(content="and go on")
    left, right = worker.expect("ask"), worker.expect("ask")
    worker.expect("waiting")  # in the same batch: the server commits both questions and the pause at once
    worker.ack(left, interrupt_id="left")
    worker.answer("left", value="left won")
    step = worker.expect("step")
    worker.ack(right, interrupt_id="right")
    worker.expect("withdraw", turn="t1", interrupt_id="right")
    worker.ack(step)
    assert worker.end()["response"]["content"] == "left won"
    assert worker.exit_code() == 0


def test_an_expired_question_gives_its_default(child: Callable[..., Child]) -> None:
    worker = child("expiring")
    worker.turn()
    ask = worker.open_interrupt()
    assert (ask["interrupt"]["expires_in"], ask["interrupt"]["has_default"]) == (5.0, True)
    worker.expect("waiting")
    worker.expire("i1")
    assert worker.end()["response"]["content"] == "too late"


def test_deltas_come_before_the_step_they_belong_to(child: Callable[..., Child]) -> None:
    worker = child("streamer")
    worker.turn()
    worker.expect("delta", step_id="0#1", attempt=1, delta={"content": "Hel"})
    worker.expect("delta", delta={"content": "lo"})
    worker.ack(worker.expect("step"))
    assert worker.end()["response"]["content"] == "Hello"


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ("raise", {"type": "ValueError", "message": "no such city"}),
        ("exit", {"type": "SystemExit", "message": "bye"}),
        ("exit in a child task", {"type": "SystemExit", "message": "4"}),
        ("interrupt the keyboard", {"type": "KeyboardInterrupt", "message": ""}),
        ("cancel itself", {"type": "CancelledError", "message": ""}),
        ("task group", {"type": "LookupError", "message": "inner"}),
        ("group", {"type": "ExceptionGroup", "message": "two (2 sub-exceptions): ValueError: a; KeyError: 'b'"}),
        (
            "wrong shape",
            {"type": "TypeError", "message": "Agent must return a (response, state) tuple, got str"},
        ),
        ("nothing", {"type": "TypeError", "message": "Agent must return a (response, state) tuple, got NoneType"}),
    ],
)
def test_a_failing_agent_ends_its_turn_and_leaves_its_traceback_in_the_log(
    child: Callable[..., Child], content: str, error: dict[str, str]
) -> None:
    worker = child("misbehaving")
    worker.turn(content=content)
    assert worker.end() == {"error": error}
    assert worker.exit_code() == 0
    assert "Traceback" in worker.stderr
    assert error["message"].splitlines()[-1:] == [] or error["message"] in worker.stderr or content == "group"


def test_of_what_is_no_mistake_of_the_code_the_log_has_a_line(child: Callable[..., Child]) -> None:
    worker = child("misbehaving")
    worker.turn(content="no key")
    assert worker.end()["error"]["code"] == "model_not_configured"
    assert worker.exit_code() == 0
    assert worker.stderr == "ModelNotConfigured: it has no key hint: set KEY\n"


@pytest.mark.parametrize(
    ("content", "kind"), [("surrogate", "UnicodeEncodeError"), ("not JSON", "ValueError"), ("deep", "ValueError")]
)
def test_a_response_that_cannot_be_sent_is_an_error_of_the_turn(
    child: Callable[..., Child], content: str, kind: str
) -> None:
    worker = child("misbehaving")
    worker.turn(content=content)
    assert worker.end()["error"]["type"] == kind


def test_a_payload_that_cannot_be_asked_raises_in_the_agent(child: Callable[..., Child]) -> None:
    worker = child("misbehaving")
    worker.turn(content="bad payload")
    assert worker.end()["error"]["type"] == "TypeError"


def test_a_refused_question_raises_in_the_agent(child: Callable[..., Child]) -> None:
    worker = child("misbehaving")
    worker.turn(content="refused")
    ask = worker.expect("ask")
    worker.expect("waiting")
    worker.send("refused", turn="t1", call=ask["call"], code="payload_too_large", message="too large")
    worker.ack(worker.expect("step"))  # the refusal is what a replay will find
    assert worker.end() == {"error": {"type": "PayloadTooLarge", "message": "too large", "code": "payload_too_large"}}


def test_a_refused_end_becomes_the_error_of_the_turn(child: Callable[..., Child]) -> None:
    worker = child("echo")
    worker.turn()
    end = worker.expect("end")
    worker.send("refused", turn="t1", call=end["call"], code="state_too_large", message="too many messages")
    assert worker.end() == {"error": {"type": "HitlError", "message": "too many messages", "code": "state_too_large"}}
    assert worker.exit_code() == 0


def test_an_end_that_is_refused_twice_is_the_end_all_the_same(child: Callable[..., Child]) -> None:
    worker = child("echo")
    worker.turn()
    for _ in range(2):
        end = worker.expect("end")
        worker.send("refused", turn="t1", call=end["call"], code="store_is_full", message="no space")
    assert worker.receive() is None
    assert worker.exit_code() == 0


def test_a_turn_that_cannot_be_ended_ends_its_process_without_a_word_about_it(child: Callable[..., Child]) -> None:
    worker = child("saboteur")
    worker.turn()
    assert worker.receive() is None
    assert worker.exit_code() == 0
    assert "ZeroDivisionError" in worker.stderr


def test_a_turn_that_is_taken_away_while_its_end_is_on_its_way_is_dropped_at_once(child: Callable[..., Child]) -> None:
    worker = child("echo")
    worker.turn()
    worker.expect("end")
    worker.send("cancel", turn="t1")
    worker.expect("cancelled", turn="t1", left=0)
    assert worker.exit_code() == 0


def test_a_turn_that_has_a_journal_goes_on_where_that_ends(child: Callable[..., Child]) -> None:
    first = child("painter")
    first.turn(content="Which?")
    step = first.expect("step")
    first.ack(step)
    ask = first.open_interrupt("i1")
    journal = [
        {"at": 1, "entry": "step", "step": step["step"], "result": step["result"]},
        {"at": 2, "entry": "ask", "step": ask["step"], "interrupt_id": "i1"},
        {"at": 3, "entry": "pause", "timers": []},
    ]
    second = child("painter")
    second.turn(content="Which?", journal=journal)
    second.expect("replayed", warnings=[])
    second.expect("waiting", seen=3)
    second.answer("i1", value={"hex": "#fff"})
    assert second.end()["response"]["content"] == "dark #fff"


def test_a_journal_of_another_agent_ends_the_turn_and_says_what_does_not_fit(child: Callable[..., Child]) -> None:
    worker = child("painter")
    identity = {"path": "0#1", "kind": "model", "name": "complete", "location": "old.py:3", "arguments": {}}
    worker.turn(journal=[{"at": 1, "entry": "step", "step": identity, "result": {"value": 1}}])
    error = worker.end()["error"]
    assert (error["type"], error["code"]) == ("ReplayMismatch", "replay_mismatch")
    assert "recorded:" in error["message"]
    assert "attempted:" in error["message"]
    assert worker.exit_code() == 0


def test_a_journal_of_a_later_release_fails_its_turn_and_leaves_the_others_alone(child: Callable[..., Child]) -> None:
    worker = child("greeter", "pool")
    worker.turn("t1")
    worker.open_interrupt("i1")
    worker.expect("waiting", turn="t1")
    worker.turn("t2", journal=[{"at": 1, "entry": "teleport"}])
    while (frame := worker.receive()) and frame["frame"] == "log":
        pass
    assert frame is not None
    assert (frame["frame"], frame["turn"]) == ("end", "t2")
    assert "there is no entry `teleport`" in frame["result"]["error"]["message"]
    worker.ack(frame)
    worker.answer("i1", "Ada", turn="t1")
    assert worker.end("t1")["response"]["content"] == "Ada"


def test_a_parked_turn_leaves_memory_without_another_record(child: Callable[..., Child]) -> None:
    worker = child("stubborn", "pool")
    worker.turn("t1")
    worker.open_interrupt()
    worker.expect("waiting")
    worker.send("park", turn="t1")
    while (frame := worker.receive()) and frame["frame"] == "log":
        pass
    assert frame == {"frame": "parked", "turn": "t1", "left": 0}
    worker.send("shutdown")
    assert worker.receive() is None
    assert worker.exit_code() == 0


@pytest.mark.parametrize(("stop", "dropped"), [("park", "parked"), ("cancel", "cancelled")])
def test_a_turn_that_is_stopped_at_its_end_is_dropped_without_an_acknowledgement(
    child: Callable[..., Child], stop: str, dropped: str
) -> None:
    worker = child("echo", "pool")
    worker.turn()
    worker.expect("end", turn="t1")
    worker.send(stop, turn="t1", message="")
    worker.expect(dropped, turn="t1", left=0)
    worker.turn()
    worker.end()


def test_a_turn_that_is_not_there_is_said_to_be_dropped(child: Callable[..., Child]) -> None:
    worker = child("echo", "pool")
    worker.send("park", turn="t1")
    worker.expect("parked", turn="t1", left=0)
    worker.turn()
    worker.end()


def test_a_ping_is_answered_while_a_turn_waits(child: Callable[..., Child]) -> None:
    worker = child("stubborn")
    worker.turn()
    worker.open_interrupt()
    worker.expect("waiting")
    worker.send("ping")
    worker.expect("pong")


def test_leftovers_are_cancelled_and_a_blocked_thread_does_not_keep_the_process(child: Callable[..., Child]) -> None:
    worker = child("untidy")
    worker.turn()
    worker.open_interrupt("i1")
    worker.ack(worker.expect("step"))
    assert worker.end()["response"]["content"] == "done"  # what is still asked, the end itself cancels
    assert worker.exit_code() == 0


def test_cancel_stops_the_agent_and_nothing_more_of_it_is_recorded(child: Callable[..., Child]) -> None:
    worker = child("stubborn")
    worker.turn()
    worker.open_interrupt()
    worker.expect("waiting")
    worker.send("cancel", turn="t1", message="Turn cancelled")
    assert worker.expect("cancelled")["left"] == 0
    assert worker.receive() is None
    assert worker.exit_code() == 0
    assert worker.stderr == "cleaning up\n"


def test_cancel_ends_a_process_whose_agent_blocks_a_thread(child: Callable[..., Child]) -> None:
    worker = child("blocked")
    worker.turn()
    worker.ack(worker.expect("step"))
    worker.send("cancel", turn="t1", message="Turn cancelled")
    assert worker.expect("cancelled")["left"] == 0
    assert worker.receive() is None
    assert worker.exit_code() == 0


def test_the_end_of_the_channel_is_the_end_of_the_process(child: Callable[..., Child]) -> None:
    worker = child("stubborn")
    worker.turn()
    worker.open_interrupt()
    worker.expect("waiting")
    worker.socket.close()
    assert worker.exit_code() == 0
    assert worker.stderr == ""  # not even a finally ran: the turn is not this process's any more


def test_a_server_that_goes_before_it_has_listened_is_not_told_of() -> None:
    """One that could not start, and says so itself: what it left unread is a reset of the channel, not its end."""
    with Child("echo") as worker:
        assert select.select([worker.socket], [], [], 100)[0], "the first word has come, and nobody reads it"
        worker.socket.close()
        worker.exit_code()
    assert worker.stderr == ""


def test_a_child_without_a_turn_ends_at_shutdown(child: Callable[..., Child]) -> None:
    worker = child("echo")
    worker.send("shutdown")
    assert worker.receive() is None
    assert worker.exit_code() == 0


def test_ctrl_c_is_the_servers_business(child: Callable[..., Child]) -> None:
    worker = child("painter")
    worker.turn()
    worker.ack(worker.expect("step"))
    worker.open_interrupt()
    worker.expect("waiting")
    worker.process.send_signal(signal.SIGINT)
    worker.answer("i1", value={"hex": "#fff"})
    assert worker.end()["response"]["content"] == "dark #fff"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"{", "a frame is no JSON"),
        (b"[1]", "a frame is a JSON list, not an object"),
        (b'{"frame": "dance"}', "unknown frame 'dance'"),
        (b'{"frame": "answer", "turn": "t1"}', "frame 'answer' lacks 'index'"),
        (b"\xff", "a frame is no JSON"),
    ],
)
def test_a_bad_frame_ends_the_worker_and_says_why(child: Callable[..., Child], body: bytes, reason: str) -> None:
    worker = child("stubborn", "pool")
    worker.send_bytes(body)
    assert worker.exit_code() == 70
    assert f"WorkerProtocolError: {reason}" in worker.stderr


def test_a_frame_above_the_limit_is_not_read(child: Callable[..., Child]) -> None:
    worker = child("echo")
    worker.socket.sendall((64 * 1024 * 1024 + 1).to_bytes(4, "big"))
    assert worker.exit_code() == 70
    assert "above the limit of 67,108,864" in worker.stderr


def test_large_frames_in_pieces(child: Callable[..., Child]) -> None:
    worker = child("echo")
    worker.turn(content="x" * 3_000_000)
    assert len(worker.end()["response"]["content"]) == 3_000_008


def test_a_child_prints_to_its_own_output(child: Callable[..., Child]) -> None:
    worker = child("printer")
    worker.turn(content="one")
    worker.end()
    worker.exit_code()
    assert worker.stdout == "to one\nhalf a line\nfrom a thread\n"


def test_an_agent_that_kills_its_process_says_nothing_more(child: Callable[..., Child]) -> None:
    worker = child("misbehaving")
    worker.turn(content="os._exit")
    assert worker.receive() is None
    assert worker.exit_code() == 9


def test_the_child_imports_nothing_heavy() -> None:
    code = "import json, sys, hitl.worker.child, hitl.worker.loading; print(json.dumps(list(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert not {"pydantic", "openai", "httpx2", "typer", "mcp"} & set(json.loads(found.stdout))


def test_a_turn_that_is_parked_runs_no_further_while_its_process_closes_what_is_open(
    child: Callable[..., Child],
) -> None:
    worker = child("listener")
    worker.turn()
    worker.expect("opened")
    worker.expect("started")
    worker.ack(worker.expect("step"))
    worker.open_interrupt()
    worker.send("park", turn="t1")
    assert worker.receive() is None
    assert (worker.exit_code(), worker.stdout, worker.stderr) == (0, "closed\n", "")


def test_a_turn_that_is_at_work_when_it_is_parked_ends_with_its_process(child: Callable[..., Child]) -> None:
    worker = child("listener")
    worker.turn(content="at work")
    worker.expect("opened")
    worker.expect("started")
    worker.ack(worker.expect("step"))
    worker.send("park", turn="t1")
    assert worker.receive() is None
    assert (worker.exit_code(), worker.stdout, worker.stderr) == (0, "", "")


def test_of_a_turn_that_cannot_go_on_the_log_says_why_and_not_where_its_agent_was_stopped(
    child: Callable[..., Child],
) -> None:
    worker = child("misbehaving")
    worker.turn(content="away")
    worker.ack(worker.expect("step"))
    worker.expect("waiting")
    worker.ack(worker.expect("timer"))
    assert worker.end()["error"]["code"] == "model_unavailable"
    assert worker.exit_code() == 0
    assert (
        worker.stderr
        == "ModelUnavailable: step 'misbehaving.<locals>.service' was tried 2 times, last: TransientError: no route\n"
    )
