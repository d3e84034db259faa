"""hitl/driver/frames.py: bytes to frames and back."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hitl.driver import frames
from hitl.driver.frames import FrameReader, encode_frame
from hitl.errors import WorkerProtocolError

ANSWER = {"frame": "answer", "turn": "t", "index": 3, "at": 0, "interrupt_id": "i", "value": {"text": "é\n"}}
SHUTDOWN = {"frame": "shutdown"}


def test_a_frame_is_its_length_and_compact_utf8() -> None:
    data = encode_frame({"frame": "log", "text": "é"})
    assert data == b'\x00\x00\x00\x1b{"frame":"log","text":"\xc3\xa9"}'


@given(st.lists(st.integers(min_value=1, max_value=40)))
def test_however_the_stream_is_cut_the_same_frames_come_out(cuts: list[int]) -> None:
    stream = encode_frame(ANSWER) + encode_frame(SHUTDOWN) + encode_frame(ANSWER)
    reader = FrameReader()
    seen = []
    for cut in cuts:
        seen += list(reader.feed(stream[:cut]))
        stream = stream[cut:]
    seen += list(reader.feed(stream))
    assert seen == [ANSWER, SHUTDOWN, ANSWER]


def test_frames_before_a_bad_one_are_delivered() -> None:
    reader = FrameReader()
    received = reader.feed(encode_frame(SHUTDOWN) + encode_frame({"frame": "dance"}))
    assert next(received) == SHUTDOWN
    with pytest.raises(WorkerProtocolError, match="unknown frame 'dance'"):
        next(received)


@pytest.mark.parametrize(
    ("frame", "error"),
    [
        ({"frame": "log", "text": b""}, TypeError),
        ({"frame": "log", "text": float("nan")}, ValueError),
        ({"frame": "log", "text": "\ud800"}, UnicodeEncodeError),
    ],
)
def test_what_is_no_json_is_not_sent(frame: dict, error: type[Exception]) -> None:
    with pytest.raises(error):
        encode_frame(frame)


@pytest.mark.parametrize(
    ("frame", "what"),
    [
        ({"frame": "step", "step": {"kind": "tool", "name": "read"}, "result": {"value": "x" * 99}}, "tool 'read'"),
        ({"frame": "ask", "step": {"kind": "interrupt"}, "text": "x" * 99}, "an interrupt"),
        ({"frame": "end", "result": "x" * 99}, "the agent's response and state"),
        ({"frame": "log", "text": "x" * 99}, "a log frame"),
    ],
)
def test_a_frame_above_the_limit_is_named_in_the_agents_words(
    frame: dict, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frames, "MAX_FRAME", 100)
    with pytest.raises(ValueError, match=rf"{what} is \d+ bytes of JSON, more than the limit of 100"):
        encode_frame(frame)


@pytest.mark.parametrize("name", ["turn", "ack", "refused", "answer", "expired", "cancel"])
def test_a_frame_that_lacks_a_member_is_refused(name: str) -> None:
    body = json.dumps({"frame": name}).encode()
    with pytest.raises(WorkerProtocolError, match=f"frame '{name}' lacks 'turn'"):
        list(FrameReader().feed(len(body).to_bytes(4, "big") + body))


def test_an_unknown_member_is_a_newer_servers_business() -> None:
    assert list(FrameReader().feed(encode_frame({**SHUTDOWN, "later": 1}))) == [{**SHUTDOWN, "later": 1}]


def test_json_nested_without_end_is_refused() -> None:
    body = b"[" * 200_000
    with pytest.raises(WorkerProtocolError, match="no JSON"):
        list(FrameReader().feed(len(body).to_bytes(4, "big") + body))
