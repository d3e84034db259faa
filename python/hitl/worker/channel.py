"""The worker's end of the Unix socket: a descriptor that the loop watches, which costs less than a transport."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from contextlib import suppress

from hitl.driver.frames import Frame, FrameReader, encode_frame
from hitl.errors import WorkerProtocolError
from hitl.turn.schedule import OUTSIDE
from hitl.worker.loops import WorkerLoop

_READ_SIZE = 64 * 1024
"""Of what the allocator keeps: more is given to the system and asked back for each read."""


_open: set[Channel] = set()


def _leave_all_to_parent() -> None:
    for channel in tuple(_open):
        channel.leave_to_parent()


os.register_at_fork(after_in_child=_leave_all_to_parent)


class Channel:
    """Sends frames, hands received ones to ``on_frame``, and says once, by ``on_close``, that it is over.

    ``fd`` is the descriptor of a connected Unix stream socket, which it owns from now on and watches on the running
    loop. ``on_close`` gets None at the end of the stream, else what went wrong; after the end it is still to be closed.
    """

    def __init__(
        self, fd: int, on_frame: Callable[[Frame], None], on_close: Callable[[Exception | None], None]
    ) -> None:
        self._on_frame = on_frame
        self._on_close = on_close
        self._reader = FrameReader()
        self._unsent = bytearray()
        self._flush_is_due = False
        """At the end of this round of the loop, or when the socket takes more."""
        self._is_full = False
        """The socket did not take all, and is watched until it does."""
        self._closed = False
        self._is_left = False
        """Its owner has closed it as well."""
        self._loop = asyncio.get_running_loop()
        self._at_end_of_round = self._loop.at_end_of_round if isinstance(self._loop, WorkerLoop) else self._soon
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, fd)
        self._socket.setblocking(False)
        self._loop.add_reader(fd, self._readable)
        _open.add(self)

    def send(self, frame: Frame) -> None:
        """Send a frame, or nothing when the channel is closed. TypeError or ValueError for what is no frame.

        Frames of one round of the loop are written together: the server commits them together.
        """
        data = encode_frame(frame)
        if self._closed:
            return
        self._unsent += data
        if not self._flush_is_due:
            self._flush_is_due = True
            self._at_end_of_round(self._flush)

    def close(self) -> None:
        """Close after what was sent has been written; ``on_close`` is for the other side's doing and is not called."""
        if not self._is_left:
            self._is_left = True
            self._stop()
            self._flush()

    def leave_to_parent(self) -> None:
        """This process was forked: it says nothing, and does not keep the other side from hearing the parent's end.

        The loop is not told. What it waits with is the parent's as well.
        """
        self._closed = self._is_left = True
        self._unsent.clear()
        self._close_socket()

    def _close_socket(self) -> None:
        self._socket.close()
        _open.discard(self)

    def _soon(self, flush: Callable[[], None]) -> None:
        # Outside of the turn that sends, whose callbacks are counted.
        self._loop.call_soon(flush, context=OUTSIDE.copy())

    def _stop(self) -> None:
        """Hear and send no more."""
        if not self._closed:
            self._closed = True
            self._loop.remove_reader(self._socket)

    def _flush(self) -> None:
        if self._socket.fileno() < 0:  # what was due at the end of this round has been written by close()
            return
        self._flush_is_due = False
        try:
            while self._unsent:
                del self._unsent[: self._socket.send(self._unsent)]
        except (BlockingIOError, InterruptedError):
            self._flush_is_due = True
        except OSError as error:
            self._unsent.clear()
            self._end(error)
        if self._is_full != self._flush_is_due:
            self._is_full = self._flush_is_due
            if self._is_full:
                self._loop.add_writer(self._socket, self._flush)
            else:
                self._loop.remove_writer(self._socket)
        if self._is_left and not self._unsent:
            self._discard_unread()
            self._close_socket()

    def _discard_unread(self) -> None:
        """What is unread when a socket is closed would be a broken channel for the other side, and not its end."""
        with suppress(OSError):  # nothing is there, or the other side has gone
            while self._socket.recv(_READ_SIZE):
                pass

    def hear_rest(self) -> None:
        """Hand over what has come by now, for an owner that is about to close."""
        while not self._closed and self._readable():
            pass

    def _readable(self) -> bool:
        """Whether there was something."""
        try:
            data = self._socket.recv(_READ_SIZE)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError as error:
            self._end(error)
            return False
        if not data:
            self._end(None)
            return False
        try:
            for frame in self._reader.feed(data):
                self._on_frame(frame)
        except WorkerProtocolError as error:
            self._end(error)
        except Exception as error:
            self._end(error)
            raise  # a mistake of ours: the loop says where
        return True

    def _end(self, error: Exception | None) -> None:
        if not self._closed:
            if error is None:  # our own end, at which the server kills this process, is for the owner to say
                self._stop()
            else:
                self.close()
            self._on_close(error)
