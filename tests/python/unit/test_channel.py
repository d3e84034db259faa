"""worker/channel.py: a worker's end of its socket, on a real loop and a real socket."""

import asyncio
import socket
from typing import Any

import pytest

from hitl.driver.frames import encode_frame
from hitl.errors import WorkerProtocolError
from hitl.worker.channel import Channel
from hitl.worker.loops import new_loop

PING = {"frame": "ping"}


class Ends:
    """A channel, the other end of its socket, and what the channel has told."""

    def __init__(self, kind: int = socket.SOCK_STREAM) -> None:
        self.peer, theirs = socket.socketpair(socket.AF_UNIX, kind)
        self.peer.setblocking(False)
        self.frames: list[dict[str, Any]] = []
        self.ends: asyncio.Queue[Exception | None] = asyncio.Queue()
        self.channel = Channel(theirs.detach(), self.frames.append, self.ends.put_nowait)

    async def read(self, size: int) -> bytes:
        return await asyncio.get_running_loop().sock_recv(self.peer, size)

    async def read_to_end(self) -> bytes:
        found = b""
        while data := await self.read(1 << 20):
            found += data
        return found

    async def write(self, data: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(self.peer, data)

    def close(self) -> None:
        self.channel.close()
        self.peer.close()


async def test_frames_of_one_round_are_written_together() -> None:
    ends = Ends(socket.SOCK_SEQPACKET)  # which keeps apart what was written apart
    ends.channel.send(PING)
    ends.channel.send(PING)
    assert await ends.read(1024) == 2 * encode_frame(PING)
    ends.channel.send(PING)
    assert await ends.read(1024) == encode_frame(PING)
    ends.close()


def test_a_workers_loop_writes_them_at_the_end_of_the_round_that_sent_them() -> None:
    async def main() -> None:
        ends = Ends(socket.SOCK_SEQPACKET)
        ends.channel.send(PING)
        ends.channel.send(PING)
        await asyncio.sleep(0)  # the next round
        assert ends.peer.recv(1024) == 2 * encode_frame(PING)
        ends.close()

    loop = new_loop()
    try:
        loop.run_until_complete(main())
    finally:
        asyncio.set_event_loop(None)
        loop.close()


async def test_what_the_socket_does_not_take_is_written_when_it_does_and_in_order() -> None:
    ends = Ends()
    sent = [{"frame": "log", "text": letter * 1_000_000} for letter in "abc"]
    for frame in sent:
        ends.channel.send(frame)
        await asyncio.sleep(0)  # a round of its own
    expected = b"".join(map(encode_frame, sent))
    found = b""
    while len(found) < len(expected):
        found += await ends.read(1 << 20)
    assert found == expected
    ends.channel.send(PING)
    assert await ends.read(1024) == encode_frame(PING)
    ends.close()


async def test_what_was_sent_before_it_was_closed_is_still_written() -> None:
    ends = Ends()
    frame = {"frame": "log", "text": "a" * 3_000_000}
    ends.channel.send(frame)
    ends.channel.close()
    ends.channel.send(PING)
    assert await ends.read_to_end() == encode_frame(frame)
    assert ends.ends.empty()
    ends.peer.close()


async def test_what_was_not_read_before_it_was_closed_is_no_broken_channel_for_the_other_side() -> None:
    ends = Ends()
    ends.channel.send(PING)
    ends.peer.send(encode_frame(PING) * 100)  # nobody reads it: no round of the loop goes by
    ends.channel.close()
    assert ends.peer.recv(1024) == encode_frame(PING)
    assert ends.peer.recv(1024) == b""
    assert ends.frames == []
    ends.close()


async def test_frames_arrive_in_whatever_pieces_they_come() -> None:
    ends = Ends()
    for byte in 2 * encode_frame(PING):
        await ends.write(bytes([byte]))
        await asyncio.sleep(0)
    ends.peer.close()
    assert await ends.ends.get() is None
    assert ends.frames == [PING, PING]
    ends.close()


async def test_the_end_of_the_stream_is_told_once_and_nothing_is_sent_after_it() -> None:
    ends = Ends()
    ends.peer.close()
    assert await ends.ends.get() is None
    ends.channel.send(PING)
    ends.channel.close()
    await asyncio.sleep(0)
    assert ends.ends.empty()


async def test_its_own_end_comes_after_that_of_the_stream_when_it_is_closed() -> None:
    ends = Ends()
    ends.peer.shutdown(socket.SHUT_WR)
    assert await ends.ends.get() is None
    ends.channel.send(PING)
    with pytest.raises(BlockingIOError):  # neither a frame nor the end
        ends.peer.recv(1)
    ends.channel.close()
    assert await ends.read_to_end() == b""
    ends.peer.close()


async def test_a_peer_that_takes_nothing_more_is_the_end() -> None:
    ends = Ends()
    ends.peer.shutdown(socket.SHUT_RD)
    ends.channel.send(PING)
    assert isinstance(await ends.ends.get(), BrokenPipeError)
    assert ends.ends.empty()
    ends.peer.close()


async def test_what_is_no_frame_is_the_end() -> None:
    ends = Ends()
    await ends.write(b"\0\0\0\2[]")
    assert isinstance(await ends.ends.get(), WorkerProtocolError)
    assert await ends.read_to_end() == b""
    ends.peer.close()


async def test_a_frame_that_cannot_be_handled_is_the_end_and_the_loop_says_why() -> None:
    ends, said = Ends(), []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: said.append(context["exception"]))
    error = KeyError("turn")

    def fail(_: object) -> None:
        raise error

    ends.channel._on_frame = fail
    await ends.write(encode_frame(PING))
    assert await ends.ends.get() is error
    await asyncio.sleep(0)
    assert said == [error]
    ends.peer.close()
