"""The worker's channel on somebody else's loop: a socket that is read and written by the loop's callbacks alone.

Not a transport: those have to be closed while the loop still runs, and nobody tells us when that is.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

from hitl.errors import WorkerProtocolError
from hitl.schedule import OUTSIDE
from hitl.worker.frames import Frame, FrameReader, encode_frame

_READ_SIZE = 256 * 1024


class LoopChannel:
    """Sends frames and hands received ones to ``on_frame``; ``on_lost`` is called once when the other side is gone."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        fd: int,
        on_frame: Callable[[Frame], None],
        on_lost: Callable[[Exception | None], None],
    ) -> None:
        self._loop = loop
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, fileno=fd)
        self._socket.setblocking(False)
        self._on_frame = on_frame
        self._on_lost = on_lost
        self._reader = FrameReader()
        self._unsent = bytearray()
        self._is_flushing = False
        self._is_writing = False
        self._closed = False
        # Callbacks run in the context that is current here: it must not be that of a turn.
        OUTSIDE.copy().run(loop.add_reader, self._socket, self._readable)

    def send(self, frame: Frame) -> None:
        """Send a frame, or nothing when the channel is closed. TypeError or ValueError for what is no frame.

        Frames of one round of the loop are written together: the core commits them together.
        """
        data = encode_frame(frame)
        if self._closed:
            return
        self._unsent += data
        if not self._is_flushing and not self._is_writing:
            self._is_flushing = True
            self._loop.call_soon(self._flush, context=OUTSIDE.copy())

    def close(self) -> None:
        """Close at once; what was not written is lost. Safe after the loop has stopped."""
        if not self._closed:
            self._closed = True
            self._loop.remove_reader(self._socket)
            if self._is_writing:
                self._loop.remove_writer(self._socket)
            self._socket.close()

    def _flush(self) -> None:
        self._is_flushing = False
        if self._closed:
            return
        try:
            sent = self._socket.send(self._unsent)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError as error:
            self._lose(error)
            return
        del self._unsent[:sent]
        if self._unsent and not self._is_writing:
            self._is_writing = True
            OUTSIDE.copy().run(self._loop.add_writer, self._socket, self._flush)
        elif not self._unsent and self._is_writing:
            self._is_writing = False
            self._loop.remove_writer(self._socket)

    def _readable(self) -> None:
        try:
            data = self._socket.recv(_READ_SIZE)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._lose(error)
            return
        if not data:
            self._lose(None)
            return
        try:
            for frame in self._reader.feed(data):
                self._on_frame(frame)
        except WorkerProtocolError as error:
            self._lose(error)

    def _lose(self, error: Exception | None) -> None:
        if not self._closed:
            self.close()
            self._on_lost(error)
