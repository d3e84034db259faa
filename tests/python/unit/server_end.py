"""The server's end of a worker's channel, for tests: blocking, with a time limit on everything."""

import json
import socket
from typing import Any, Self

Frame = dict[str, Any]


class ServerEnd:
    """Sends and receives raw frames; what it receives must be what the test expects next."""

    def __init__(self) -> None:
        self.entries = 0
        self.socket, self.worker = socket.socketpair()
        self.socket.settimeout(100)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.socket.close()
        self.worker.close()

    def send(self, name: str, **members: Any) -> None:
        self.send_bytes(json.dumps({"frame": name, **members}).encode())

    def send_bytes(self, body: bytes) -> None:
        self.socket.sendall(len(body).to_bytes(4, "big") + body)

    def receive(self) -> Frame | None:
        """The next frame, None at the end of the stream."""
        header = self._read(4)
        if not header:
            return None
        frame: Frame = json.loads(self._read(int.from_bytes(header, "big")))
        return frame

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self.socket.recv(size - len(data))
            if not piece:
                assert not data, "the stream ended inside a frame"
                return data
            data += piece
        return data

    def expect(self, name: str, **members: Any) -> Frame:
        """The next frame, which must have that name and those members."""
        frame = self.receive()
        assert frame is not None, f"expected {name!r}, got the end of the stream"
        assert frame["frame"] == name, frame
        for member, value in members.items():
            assert frame[member] == value, frame
        return frame

    def turn(
        self,
        turn: str = "t1",
        content: str = "hello",
        state: list[Any] | None = None,
        journal: list[Frame] | None = None,
    ) -> None:
        """Give the worker a turn; ``journal`` is what follows its first entry."""
        message = {"role": "user", "content": content}
        entries = [{"at": 0, "entry": "start", "code": "", "python": "3.11"}, *(journal or [])]
        self.entries = len(entries)
        state = state or []
        self.send("turn", turn=turn, epoch=1, session_id="s1", message=message, state=state, journal=entries)

    def ack(self, frame: Frame, **members: Any) -> None:
        self.send("ack", turn=frame["turn"], call=frame["call"], **self._next_entry(), **members)

    def answer(self, interrupt_id: str, value: Any, turn: str = "t1") -> None:
        self.send("answer", turn=turn, interrupt_id=interrupt_id, value=value, **self._next_entry())

    def expire(self, interrupt_id: str, turn: str = "t1") -> None:
        self.send("expired", turn=turn, interrupt_id=interrupt_id, **self._next_entry())

    def _next_entry(self) -> dict[str, int]:
        """Where the next entry of the journal stands, and its time."""
        self.entries += 1
        return {"index": self.entries - 1, "at": 0}

    def open_interrupt(self, interrupt_id: str = "i1", **members: Any) -> Frame:
        """Take the next ask and commit it."""
        frame = self.expect("ask", **members)
        self.ack(frame, interrupt_id=interrupt_id)
        return frame

    def end(self, turn: str = "t1") -> Any:
        """Take the end of the turn, commit it, and return its result."""
        frame = self.expect("end", turn=turn)
        self.ack(frame)
        return frame["result"]
