"""The server's end of a worker's channel, for tests: blocking, with a time limit on everything."""

import json
import socket
from typing import Any, Self

Frame = dict[str, Any]


class ServerEnd:
    """Sends and receives raw frames; what it receives must be what the test expects next."""

    def __init__(self) -> None:
        self.socket, self.worker = socket.socketpair()
        self.socket.settimeout(20)

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

    def turn(self, turn: str = "t1", content: str = "hello", state: list[Any] | None = None) -> None:
        message = {"role": "user", "content": content}
        self.send("turn", turn=turn, session_id="s1", message=message, state=state or [], journal=[])

    def ack(self, frame: Frame, **members: Any) -> None:
        self.send("ack", turn=frame["turn"], call=frame["call"], **members)

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
