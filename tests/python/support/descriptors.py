"""Agents whose turns start programs in every way there is, and tell what those were given."""

from __future__ import annotations

import asyncio
import ctypes
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import hitl
from hitl import ChatMessage, Server
from hitl.client import Client

_LIST = "ls -l /proc/self/fd"


def _by_system(out: str) -> None:
    os.system(f"{_LIST} > {out}")


def _by_popen_that_closes_nothing(out: str) -> None:
    subprocess.run(["/bin/sh", "-c", f"{_LIST} > {out}"], close_fds=False, check=True)


def _by_posix_spawn(out: str) -> None:
    os.waitpid(os.posix_spawn("/bin/sh", ["sh", "-c", f"{_LIST} > {out}"], os.environ), 0)


def _by_fork_and_exec(out: str) -> None:
    pid = os.fork()
    if pid == 0:
        try:
            os.execv("/bin/sh", ["sh", "-c", f"{_LIST} > {out}"])
        finally:
            os._exit(1)
    os.waitpid(pid, 0)


def _by_asyncio_that_closes_nothing(out: str) -> None:
    """On a loop of its own, since the step may run on the turn's."""

    async def start() -> None:
        program = await asyncio.create_subprocess_shell(f"{_LIST} > {out}", close_fds=False)
        await program.wait()

    thread = threading.Thread(target=asyncio.run, args=[start()])
    thread.start()
    thread.join()


def _by_c(out: str) -> None:
    """As a library in C does, past everything that Python closes."""
    library = ctypes.CDLL(None)
    library.system(f"{_LIST} > {out}".encode())


WAYS: dict[str, Callable[[str], None]] = {
    "os.system": _by_system,
    "subprocess(close_fds=False)": _by_popen_that_closes_nothing,
    "posix_spawn": _by_posix_spawn,
    "fork and exec": _by_fork_and_exec,
    "asyncio(close_fds=False)": _by_asyncio_that_closes_nothing,
    "system of C": _by_c,
}


def descriptors_of_a_child(way: str) -> list[int]:
    """The descriptors of a program that is started so, without the one by which it looks."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        WAYS[way](str(out))
        found = re.findall(r" (\d+) -> (.+)", out.read_text())
    return sorted(int(number) for number, target in found if not re.fullmatch(r"/proc/\d+/fd", target))


async def starter(message: ChatMessage, state: list[ChatMessage]) -> tuple[ChatMessage, list[ChatMessage]]:
    """The message is the way; the response is what the program had."""
    found = await hitl.step(descriptors_of_a_child, message.content or "")
    reply = ChatMessage.assistant_message(content=" ".join(map(str, found)))
    return reply, [*state, message, reply]


if __name__ == "__main__":  # a program that serves an agent of its own
    with Server(starter, port=0, store="memory", log_level="warning") as server:
        client = Client(server.url)
        for way in WAYS:
            session = client.create_session()
            client.send_message(session.session_id, way)
            told = client.wait(session.session_id, 60)
            assert told.response is not None, told
            print(told.response.content)
    sys.exit(0)
