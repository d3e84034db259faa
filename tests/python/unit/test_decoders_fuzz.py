"""What Python reads of others, changed here and there: stored values, stored errors, frames of the server."""

from __future__ import annotations

import copy
import json
import os
import sys
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Any
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from hitl.driver.frames import FrameReader, encode_frame
from hitl.errors import WorkerProtocolError
from hitl.journal.codec import decode, encode
from hitl.journal.error_codec import decode_error, encode_error

CASES = int(os.environ.get("HITL_FUZZ_CASES", "0"))
fuzzed = settings(max_examples=CASES or 300, derandomize=not CASES, database=None, deadline=None)

SHOP = UUID(int=7)
STORED = [
    encode([datetime(2026, 1, 2, tzinfo=UTC), date(2026, 1, 2), time(1, 2), timedelta(1), Decimal("1.5"), SHOP]),
    encode({"set": {1, 2}, "tuple": (1, (2,)), "bytes": b"ab", "path": PurePosixPath("a/b"), "frozen": frozenset("a")}),
    encode(["plain", 1, 2.5, None, {"a": [True]}]),
]
ERRORS = [
    encode_error(OSError(2, "gone", "file.txt")),
    encode_error(ExceptionGroup("several", [ValueError("one"), KeyError("two")])),
    encode_error(WorkerProtocolError("no such frame")),
]
FRAMES = [
    {"frame": "answer", "turn": "t", "index": 3, "at": 0, "interrupt_id": "i", "value": {"text": "é"}},
    {"frame": "ack", "turn": "t", "call": 1, "index": 2, "at": 5},
    {"frame": "cancel", "turn": "t"},
    {"frame": "shutdown"},
]

odd = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5) | st.just("$"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every container in a value with each of its keys."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else []
    return [place for key in keys for place in ((value, key), *places(value[key]))]


@st.composite
def changed(draw: st.DrawFn, valid: list[Any]) -> Any:
    """One of these, with some changes."""
    value = copy.deepcopy([draw(st.sampled_from(valid))])
    for _ in range(draw(st.integers(0, 4))):
        if not (found := places(value)):
            break
        container, key = draw(st.sampled_from(found))
        if draw(st.booleans()):
            container[key] = draw(odd)
        elif isinstance(container, dict):
            container[draw(st.text(max_size=5))] = container.pop(key)
        elif container is not value:
            del container[key]
    return value[0]


@given(changed(STORED))
@fuzzed
def test_fuzz_a_stored_value_is_read_or_a_value_error(stored: Any) -> None:
    before = set(sys.modules)
    try:
        decode(stored)
    except ValueError:
        return
    assert {name for name in set(sys.modules) - before if not name.startswith(("zoneinfo", "_zoneinfo"))} == set()


@given(st.sampled_from(ERRORS), st.data())
@fuzzed
def test_fuzz_a_stored_error_is_an_error_whatever_it_holds(stored: dict[str, Any], data: st.DataObject) -> None:
    """The core has seen that its members are of the right types; what is in them is anybody's."""
    own = {name: stored[name] for name in ("args", "state") if name in stored}
    own = {name: data.draw(changed([value])) for name, value in own.items()}
    kept = {name: value for name, value in own.items() if type(value) is type(stored[name])}
    error = decode_error({**stored, **kept})
    assert isinstance(error, BaseException)
    assert isinstance(str(error), str)


@given(changed(FRAMES), st.binary(max_size=4), st.integers(0, 60), st.booleans())
@fuzzed
def test_fuzz_a_frame_is_read_or_breaks_the_protocol(frame: Any, piece: bytes, place: int, is_cut: bool) -> None:
    body = bytearray(json.dumps(frame).encode())
    if is_cut:
        body[place : place + len(piece)] = piece
    stream = encode_frame({"frame": "shutdown"}) + len(body).to_bytes(4, "big") + bytes(body)
    reader = FrameReader().feed(stream)
    assert next(reader) == {"frame": "shutdown"}
    broken = None
    try:
        assert all(isinstance(read["frame"], str) for read in reader)
    except WorkerProtocolError as error:
        broken = error
    assert broken is None or len(str(broken)) < 1000, "what is wrong is said in few words"
