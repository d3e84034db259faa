"""The worker's end of the Unix socket: a plain asyncio protocol, which costs half of what streams do."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Protocol

from hitl.errors import WorkerProtocolError
from hitl.schedule import OUTSIDE
from hitl.worker.frames import Frame, FrameReader, encode_frame


class Sender(Protocol):
    """Where a turn's frames go."""

    def send(self, frame: Frame) -> None:
        """Send a frame. TypeError or ValueError for what is no frame."""


class Channel(asyncio.Protocol):
    """Sends frames, hands received ones to ``on_frame``, and says once, by ``on_close``, that it is over.

    ``on_close`` gets None at the end of the stream, else what went wrong.
    """

    def __init__(self, on_frame: Callable[[Frame], None], on_close: Callable[[Exception | None], None]) -> None:
        self._on_frame = on_frame
        self._on_close = on_close
        self._reader = FrameReader()
        self._unsent: list[bytes] = []
        self._transport: asyncio.Transport | None = None
        self._closed = False

    @classmethod
    async def open(
        cls, fd: int, on_frame: Callable[[Frame], None], on_close: Callable[[Exception | None], None]
    ) -> Channel:
        """A channel over the descriptor of a connected Unix stream socket, which it owns from now on."""
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, fileno=fd)
        sock.setblocking(False)
        channel = cls(on_frame, on_close)
        await asyncio.get_running_loop().create_unix_connection(lambda: channel, sock=sock)
        return channel

    def send(self, frame: Frame) -> None:
        """Send a frame, or nothing when the channel is closed. TypeError or ValueError for what is no frame.

        Frames of one round of the loop are written together: the server commits them together.
        """
        data = encode_frame(frame)
        if self._transport is None or self._closed:
            return
        if not self._unsent:
            # Outside of the turn that sends, whose callbacks are counted.
            asyncio.get_running_loop().call_soon(self._flush, context=OUTSIDE.copy())
        self._unsent.append(data)

    def _flush(self) -> None:
        if self._unsent and self._transport is not None:
            unsent, self._unsent = self._unsent, []
            self._transport.write(b"".join(unsent))

    def close(self) -> None:
        """Close after what was sent has been written; ``on_close`` is for the other side's doing and is not called."""
        self._closed = True
        self._flush()
        if self._transport is not None:
            self._transport.close()

    # -- asyncio.Protocol -----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        try:
            for frame in self._reader.feed(data):
                self._on_frame(frame)
        except WorkerProtocolError as error:
            self._end(error)

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(exc)

    def _end(self, error: Exception | None) -> None:
        if not self._closed:
            self.close()
            self._on_close(error)
