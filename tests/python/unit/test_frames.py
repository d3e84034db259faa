"""hitl/driver/frames.py: bytes to frames and back."""

import json
from collections.abc import Callable
from enum import IntEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hitl import _core
from hitl.driver import frames
from hitl.driver.frames import FrameReader, encode_frame
from hitl.errors import WorkerProtocolError

ANSWER = {"frame": "answer", "turn": "t", "index": 3, "at": 0, "interrupt_id": "i", "value": {"text": "é\n"}}
SHUTDOWN = {"frame": "shutdown"}

# Numbers and characters at the bounds of what the core writes and reads by itself.
integers = st.sampled_from([0, -1, 2**31, 2**63 - 1, -(2**63), 2**63, 2**64, 10**30])
floats = st.sampled_from([0.0, -0.0, 1e16, 1e-7, 5e-324, 1e308])
texts = st.text(max_size=8) | st.sampled_from(["\x00\x1f\x7f", '"\\/\b\f\n\r\t', "\u2028é𐍈", "frame", ""])
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | integers
    | floats
    | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4) | st.tuples(inner, inner),
    max_leaves=12,
)


class Level(IntEnum):
    HIGH = 2


def written_by_python(frame: Any) -> bytes:
    body = json.dumps(frame, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    return len(body).to_bytes(4, "big") + body


def read(data: bytes) -> tuple[list[dict[str, Any]], int]:
    return _core.read_frames(data, {"shutdown": ("frame",), "answer": ("value",)})


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


@given(values)
def test_the_core_writes_the_bytes_that_python_would(value: Any) -> None:
    frame = {"frame": "end", "result": value}
    assert _core.write_frame(frame, frames.MAX_FRAME) in (None, written_by_python(frame))
    assert encode_frame(frame) == written_by_python(frame)


def test_the_core_writes_what_frames_are_mostly_made_of() -> None:
    frame = {"a": None, "b": [True, False, (), {}], "c": {"d": -7, "e": 1.5}, "f": 'é"\n\x01'}
    assert _core.write_frame(frame, frames.MAX_FRAME) == written_by_python(frame)
    assert _core.write_frame(frame, 10) is None  # more than it may have


NESTED: list[Any] = []
for _ in range(200):
    NESTED = [NESTED]


@pytest.mark.parametrize("value", [Level.HIGH, {1: "one"}, type("Text", (str,), {})("a"), 2**70, NESTED])
def test_what_only_python_writes_is_written_by_it(value: Any) -> None:
    frame = {"frame": "end", "result": value}
    assert _core.write_frame(frame, frames.MAX_FRAME) is None
    assert encode_frame(frame) == written_by_python(frame)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "\ud800", {"\udc00": 1}, b"", {1, 2}, object()])
def test_what_is_no_json_is_refused_by_python(value: Any) -> None:
    frame = {"frame": "end", "result": [value]}
    assert _core.write_frame(frame, frames.MAX_FRAME) is None
    with pytest.raises((TypeError, ValueError)):
        encode_frame(frame)


@given(values)
def test_the_core_reads_what_python_would(value: Any) -> None:
    data = written_by_python({"frame": "answer", "value": value})
    found, used = read(data)
    assert (used, len(found)) in ((0, 0), (len(data), 1))
    for frame in found:
        assert repr(frame) == repr(json.loads(data[4:]))  # types and signs too


@pytest.mark.parametrize(
    "text", ["-0", "-0.0", "1e5", "1E400", "18446744073709551616", '"\\ud800"', "[" * 90 + "]" * 90, "NaN"]
)
def test_what_is_rare_is_read_as_python_reads_it(text: str) -> None:
    body = b'{"frame":"cancel","turn":' + text.encode() + b"}"
    (frame,) = FrameReader().feed(len(body).to_bytes(4, "big") + body)
    assert repr(frame) == repr(json.loads(body))


@pytest.mark.parametrize(
    "body",
    [b"", b"\xff", b"[]", b"{}", *(b'{"frame":%s}' % end for end in (b"1", b'"dance"', b'"answer"', b'"shutdown"} 1'))],
)
def test_the_core_leaves_what_is_no_frame_to_python(body: bytes) -> None:
    shutdown = written_by_python(SHUTDOWN)
    assert read(shutdown + len(body).to_bytes(4, "big") + body) == ([SHUTDOWN], len(shutdown))


def outcome(read_one: Callable[[], Any]) -> str:
    """What was read, with types and signs, or how it was refused."""
    try:
        return repr(read_one())
    except WorkerProtocolError as error:
        return str(error)


@given(values, st.lists(st.tuples(st.integers(0, 200), st.binary(max_size=3)), max_size=3))
def test_whatever_is_written_is_read_or_refused_as_by_python(value: Any, edits: list[tuple[int, bytes]]) -> None:
    body = bytearray(written_by_python({"frame": "answer", "turn": "t", "value": value})[4:])
    for place, put in edits:
        body[place : place + len(put)] = put
    data = len(body).to_bytes(4, "big") + body
    assert outcome(lambda: next(FrameReader().feed(data))) == outcome(lambda: frames.check_frame(body))


@given(st.lists(values, min_size=1, max_size=4), st.lists(st.integers(0, 400), max_size=4))
def test_frames_are_the_same_however_they_are_cut(sent: list[Any], cuts: list[int]) -> None:
    bodies = [{**ANSWER, "value": value} for value in sent]
    data, reader, found = b"".join(map(written_by_python, bodies)), FrameReader(), []
    ends = sorted(min(cut, len(data)) for cut in cuts)
    for start, end in zip([0, *ends], [*ends, len(data)], strict=True):
        found += reader.feed(data[start:end])
    assert repr(found) == repr([json.loads(json.dumps(body)) for body in bodies])


def test_a_large_frame_comes_in_pieces_and_is_whole() -> None:
    frame = {**ANSWER, "value": ["é" * 1000] * 1000}
    data, reader = encode_frame(frame), FrameReader()
    pieces = [data[start : start + 65536] for start in range(0, len(data), 65536)]
    assert [frame for piece in pieces for frame in reader.feed(piece)] == [frame]
    assert list(FrameReader().feed(data)) == [frame]


def test_the_core_leaves_what_is_not_there_yet() -> None:
    whole = written_by_python(SHUTDOWN)
    for end in range(len(whole)):
        assert read(whole + whole[:end]) == ([SHUTDOWN], len(whole))


def test_a_zygote_is_asked_for_a_child_or_to_kill_one_and_nothing_else() -> None:
    assert _core.zygote_request(b'{"do":"fork","child":7,"mode":"turn"}') == (7, "turn")
    assert _core.zygote_request(b'{"do":"fork","child":8,"mode":"pool"}') == (8, "pool")
    assert _core.zygote_request(b'{"do":"kill","child":7}') == (7, None)
    for message in (b"", b"[]", b'{"do":"dance","child":7}', b'{"do":"fork","child":7}', b'{"do":"kill","child":-1}'):
        with pytest.raises(ValueError, match="no request to a zygote"):
            _core.zygote_request(message)
