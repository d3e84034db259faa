"""Frames: a 4-byte big-endian length, then one JSON object. See docs/worker-protocol.md."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Protocol

from hitl import _core
from hitl.errors import WorkerProtocolError

PROTOCOL = 3
MAX_FRAME = 64 * 1024 * 1024
"""Bytes of JSON that a frame may have."""

Frame = dict[str, Any]

# What the server may send, and what must be in it.
_MEMBERS: dict[str, tuple[str, ...]] = {
    "turn": ("turn", "epoch", "session_id", "message", "state", "journal"),
    "ack": ("turn", "call"),
    "refused": ("turn", "call", "code", "message"),
    "answer": ("turn", "index", "at", "interrupt_id", "value"),
    "expired": ("turn", "index", "at", "interrupt_id"),
    "cancel": ("turn",),
    "park": ("turn",),
    "ping": (),
    "shutdown": (),
}

_encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
# ``json.loads`` looks for the encoding of bytes first, which takes half as long again.
_decode = json.JSONDecoder().decode


def encode_frame(frame: Frame) -> bytes:
    """The bytes of a frame. TypeError or ValueError for what is no JSON, is no UTF-8, or is larger than 64 MiB."""
    written = _core.write_frame(frame, MAX_FRAME)  # the same, where it is plain, in a fraction of the time
    if written is not None:
        return written
    body = encode_body(frame)
    return len(body).to_bytes(4, "big") + body


def encode_body(frame: Frame) -> bytes:
    """The JSON of a frame. Raises what ``encode_frame`` raises."""
    try:
        body = _encoder.encode(frame).encode()
    except RecursionError:
        raise ValueError(f"{_what(frame)} is nested too deeply, or contains itself") from None
    if len(body) > MAX_FRAME:
        raise ValueError(f"{_what(frame)} is {len(body):,} bytes of JSON, more than the limit of {MAX_FRAME:,}")
    return body


def check_frame(body: bytes | bytearray | memoryview) -> Frame:
    """The frame in ``body``; WorkerProtocolError when it is none that a server sends."""
    try:
        frame = _decode(str(body, "utf-8"))
    except (ValueError, RecursionError) as error:
        raise WorkerProtocolError(f"a frame is no JSON: {error}") from error
    if not isinstance(frame, dict):
        raise WorkerProtocolError(f"a frame is a JSON {type(frame).__name__}, not an object")
    name = frame.get("frame")
    members = _MEMBERS.get(name) if isinstance(name, str) else None
    if members is None:
        raise WorkerProtocolError(f"unknown frame {name!r}")
    for member in members:
        if member not in frame:
            raise WorkerProtocolError(f"frame {name!r} lacks {member!r}")
    return frame


class Sender(Protocol):
    """Where a turn's frames go."""

    def send(self, frame: Frame) -> None:
        """Send a frame. TypeError or ValueError for what is no frame."""


class FrameReader:
    """Cuts a byte stream into frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Frame]:
        """The frames that are complete with ``data``; WorkerProtocolError at the first bad one."""
        buffer = self._buffer
        if not buffer:
            # As far as they are whole and plain, as most are.
            frames, used = _core.read_frames(data, _MEMBERS)
            yield from frames
            if used == len(data):
                return
            data = data[used:]
        buffer += data
        start = 0
        try:
            while len(buffer) - start >= 4:
                length = int.from_bytes(buffer[start : start + 4], "big")
                if length > MAX_FRAME:
                    raise WorkerProtocolError(f"a frame of {length:,} bytes is above the limit of {MAX_FRAME:,}")
                end = start + 4 + length
                if len(buffer) < end:
                    return
                body = bytes(buffer[start + 4 : end])
                start = end
                yield check_frame(body)
        finally:
            del buffer[:start]


def _what(frame: Frame) -> str:
    """The frame in the agent's words, for an error that the agent's author reads."""
    step = frame.get("step")
    if isinstance(step, dict):
        return f"the result of {step.get('kind')} {step.get('name')!r}" if "result" in frame else "an interrupt"
    return "the agent's response and state" if frame.get("frame") == "end" else f"a {frame.get('frame')} frame"
