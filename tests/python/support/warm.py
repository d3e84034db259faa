"""Programs, zygotes and commands that are forked from one process which has imported what they need, and not started.

The suite starts a thousand servers, each with a zygote, and nearly all that costs is the import of the same modules. A
fork has them at once. It is a process like one that was started, with an environment, files, a process group and a code
of its own, and whoever started it can kill it; but the tests of starts, of processes and of the command line start the
real thing (`tests.python.support.served`).

As a program, `python -m tests.python.support.warm LISTENING`, it is the process that forks. It has one thread, leaves
no event loop open, imports no agent, and ends with the process that started it, which holds the other end of its input.
"""

from __future__ import annotations

import ast
import atexit
import fcntl
import functools
import gc
import os
import re
import runpy
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import termios
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import IO, Any, NoReturn

ROOT = Path(__file__).resolve().parents[3]
LAUNCHER = Path(__file__).with_name("warm_launcher.py")
COMMANDS = ("hitl.cli.app", "hitl.cli.chat.command", "hitl.cli.chat.conversation", "hitl.cli.chat.prompts")
_LONGEST_INTERPRETER = 120
"""Bytes that every kernel reads of the first line of a script."""
_MAX_MESSAGE = 256 * 1024
_STREAMS = 3
_LEASE_PAGE = "HITL_LEASE_PAGE"
"""Names a descriptor that goes with the streams (`hitl.turn.lease`)."""
_CHANGES = ("PYTEST_CURRENT_TEST",)
"""Variables that differ from test to test, and that nobody but pytest reads."""
_LATE = re.compile(
    r"HITL_(CLUSTER_SPEED|FAILPOINT|FILES|MUTATION|SPARE_SILENT)"
    r"|BEHAVIOUR_(FOLDER|SCENE)|BLOCKED_CARDS|DELETED_FILES|DESK|EDITED_ORDER|FOLDER|LEDGER|NOTES|RECORDS|SHELF|SHOP_DB"
    r"|SUPPORT_OUTBOX|OTEL_.+"
)
"""Variables that a test may give to a fork: agents that it imports read them, or the core when it serves, and nothing
that was imported before."""


class Forked:
    """A program or a command that was forked, with the part of `subprocess.Popen` that its tests use."""

    def __init__(self, connection: socket.socket, pid: int, handle: int, stdout: IO[str] | None = None) -> None:
        self.pid = pid
        self.stdout = stdout
        self._connection = connection
        self._handle = handle
        self._code: int | None = None
        self._lock = threading.Lock()

    def poll(self) -> int | None:
        """Its exit code, minus the signal that ended it, or None while it runs."""
        return self._ended(0.0)

    def wait(self, timeout: float | None = None) -> int:
        """`poll`, once it has ended; `subprocess.TimeoutExpired` when it does not in so many seconds."""
        code = self._ended(timeout)
        if code is None:
            raise subprocess.TimeoutExpired("what was forked", timeout or 0.0)
        return code

    def send_signal(self, number: int) -> None:
        """Nothing when it has ended."""
        with self._lock, suppress(ProcessLookupError):
            if self._code is None:
                signal.pidfd_send_signal(self._handle, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _ended(self, timeout: float | None) -> int | None:
        if self._code is None and select.select([self._handle], [], [], timeout)[0]:
            with self._lock:
                if self._code is None:
                    said = self._connection.recv(_MAX_MESSAGE)
                    assert said, "the process that forks has ended"
                    self._code = int(said)
                    self._connection.close()
                    os.close(self._handle)
        return self._code


class Warm:
    """The process that forks, begun; this process's only one."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.environment = dict(environment)
        self._folder = Path(tempfile.mkdtemp(prefix="hitl-warm-"))
        self._owner = os.getpid()
        self._address = str(self._folder / "socket")
        self.python = self._folder / "python"
        self.python.write_text(f"#!{sys.executable} -IS\n{LAUNCHER.read_text()}".replace("ADDRESS", self._address, 1))
        self.python.chmod(0o700)
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
            listening.bind(self._address)
            listening.listen(64)
            # The strings of a zygote have to have the hashes that those of one which was started have.
            given = {**self.environment, "PYTHONHASHSEED": "0", "PYTHONUNBUFFERED": "1"}
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.python.support.warm", str(listening.fileno())],
                cwd=ROOT,
                env=given,
                stdin=subprocess.PIPE,
                pass_fds=(listening.fileno(),),
            )
        atexit.register(self._end)

    @property
    def can_fork(self) -> bool:
        """Whether what it has written for zygotes can be executed where it is."""
        return len(sys.executable) <= _LONGEST_INTERPRETER and os.access(self.python, os.X_OK)

    def fork(
        self, module: str, arguments: Sequence[str], environment: Mapping[str, str], directory: Path = ROOT
    ) -> Forked:
        """`python -m module` with these arguments, in that directory; both its outputs are its `stdout`."""
        ours, theirs = os.pipe()
        empty = os.open(os.devnull, os.O_RDONLY)
        request = {
            "is": "program",
            "module": module,
            "arguments": list(arguments),
            "environment": dict(environment),
            "directory": str(directory),
            "python": str(self.python),
        }
        try:
            forked = self._ask(request, [empty, theirs, theirs])
        finally:
            os.close(empty)
            os.close(theirs)
        forked.stdout = os.fdopen(ours, encoding="utf-8", errors="replace")
        return forked

    def fork_command(self, arguments: Sequence[str], environment: Mapping[str, str], terminal: int) -> Forked:
        """`hitl` with these arguments in this working directory, as the first process of a terminal."""
        request = {
            "is": "command",
            "arguments": list(arguments),
            "environment": dict(environment),
            "directory": str(Path.cwd()),
        }
        return self._ask(request, [terminal] * _STREAMS)

    def _ask(self, request: Mapping[str, Any], streams: Sequence[int]) -> Forked:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        connection.connect(self._address)
        socket.send_fds(connection, [repr(request).encode()], streams)
        said, (handle,), _flags, _address = socket.recv_fds(connection, _MAX_MESSAGE, 1)
        return Forked(connection, int(said), handle)

    def _end(self) -> None:
        if os.getpid() != self._owner:  # a fork of the tests' process ends, which is not the end of the tests
            return
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)


_begun: list[Warm] = []
_beginning = threading.Lock()


def are_late(names: Iterable[str]) -> bool:
    """Whether a fork may be given these variables, for all of them are read by whoever it becomes."""
    return all(map(_LATE.fullmatch, names))


def warm(environment: Mapping[str, str], given: Iterable[str] = ()) -> Warm | None:
    """What forks a server that has this environment and those given to it; None where it has to be started.

    It has to be the one of this process when it was first asked, for modules may read theirs while they are imported.
    """
    if not hasattr(os, "pidfd_open") or not are_late(given):
        return None
    with _beginning:
        if not _begun:
            _begun.append(Warm(environment))
        begun = _begun[0]
    return begun if begun.can_fork and _lasting(environment) == _lasting(begun.environment) else None


def _lasting(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name not in _CHANGES and not _LATE.fullmatch(name)}


class _Forker:
    """Forks for each connection one process, and says there how it ended."""

    def __init__(self, listening: socket.socket) -> None:
        self._listening = listening
        self._poll = select.epoll()
        self._poll.register(listening.fileno(), select.EPOLLIN)
        self._poll.register(0, select.EPOLLIN)
        self._asking: dict[int, socket.socket] = {}
        """Connections that have not said yet what they want, by their descriptors."""
        self._children: dict[int, tuple[int, socket.socket, int | None]] = {}
        """By descriptors of children: their process ids, who asked for them, and one of the server they die with."""
        self._ties: dict[int, int] = {}
        """Descriptors that are ready when a child has to die, and which child."""

    def run(self) -> None:
        """Until standard input is closed. In each child it ends with `_Become`."""
        while True:
            # One at a time: what is done about it may close another that is ready, and give its number away.
            for descriptor, _ in self._poll.poll(maxevents=1):
                if descriptor == 0:
                    for pid, _, _ in self._children.values():
                        os.kill(pid, signal.SIGKILL)
                    return
                if descriptor == self._listening.fileno():
                    connection, _ = self._listening.accept()
                    self._asking[connection.fileno()] = connection
                    self._poll.register(connection.fileno(), select.EPOLLIN)
                elif descriptor in self._asking:
                    self._request(self._asking.pop(descriptor))
                elif descriptor in self._children:
                    self._reap(descriptor)
                elif descriptor in self._ties:
                    self._kill(descriptor)

    def _request(self, connection: socket.socket) -> None:
        self._poll.unregister(connection.fileno())
        said, streams, _flags, _address = socket.recv_fds(connection, _MAX_MESSAGE, _STREAMS + 1)
        if not said:  # its server has ended meanwhile
            connection.close()
            return
        request = ast.literal_eval(said.decode())
        if request["is"] == "command":
            _prepare_commands()
        pid = os.fork()
        if pid == 0:
            connection.close()
            self._become(request, streams)
        for stream in streams:
            os.close(stream)
        handle = os.pidfd_open(pid)
        with suppress(ConnectionError):  # whoever asked is gone
            socket.send_fds(connection, [str(pid).encode()], [handle])
        server: int | None = None
        if request["is"] == "zygote":
            # It is the kernel that ties a zygote to its server. This one has another parent.
            self._watch(connection.fileno(), handle)
            with suppress(ProcessLookupError):
                server = os.pidfd_open(request["server"])
                self._watch(server, handle)
            if server is None:
                os.kill(pid, signal.SIGKILL)
        self._children[handle] = (pid, connection, server)
        self._poll.register(handle, select.EPOLLIN)

    def _watch(self, descriptor: int, handle: int) -> None:
        self._ties[descriptor] = handle
        self._poll.register(descriptor, select.EPOLLIN)

    def _kill(self, descriptor: int) -> None:
        os.kill(self._children[self._ties[descriptor]][0], signal.SIGKILL)
        self._forget(descriptor)

    def _forget(self, descriptor: int) -> None:
        if self._ties.pop(descriptor, None) is not None:
            self._poll.unregister(descriptor)

    def _reap(self, handle: int) -> None:
        pid, connection, server = self._children.pop(handle)
        self._poll.unregister(handle)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        with suppress(ConnectionError):
            connection.send(str(code).encode())
        self._forget(connection.fileno())
        connection.close()
        if server is not None:
            self._forget(server)
            os.close(server)
        os.close(handle)

    def _become(self, request: dict[str, Any], streams: list[int]) -> NoReturn:
        """Be the child: leave the loop, and close what is the parent's."""
        for number, stream in enumerate(streams[:_STREAMS]):
            os.dup2(stream, number)
            os.close(stream)
        if request["is"] == "zygote" and _LEASE_PAGE in request["environment"]:
            request["environment"][_LEASE_PAGE] = str(streams[_STREAMS])
        self._poll.close()
        self._listening.close()
        for handle, (_, connection, server) in self._children.items():
            connection.close()
            os.close(handle)
            if server is not None:
                os.close(server)
        for connection in self._asking.values():
            connection.close()
        raise _Become(request)


class _Become(BaseException):
    """Carries a child out of the loop of its parent, to run to the end of the program as one that was started."""

    def __init__(self, request: dict[str, Any]) -> None:
        super().__init__()
        self.request = request


def _live(request: dict[str, Any]) -> int:
    """The whole life of a child; its exit code."""
    os.environ.clear()
    os.environ.update(request["environment"])
    if request["is"] == "program":
        # What starts the zygote of a server, and anything else with Python.
        sys.executable = request["python"]
        sys.argv[1:] = request["arguments"]
        _stand_in(request["directory"])
        return _run_program(request["module"])
    if request["is"] == "command":
        return _run_command(request)
    from hitl.worker import zygote

    _stand_in(request["directory"])
    with suppress(ProcessLookupError, PermissionError):  # who asked has been killed, and so will this one be
        os.setpgid(0, request["group"])
    # This process has done it for all; a second time it is half of what a zygote costs.
    zygote.rehearse = _rehearsed  # type: ignore[attr-defined]
    # Its memory is for the most part this process's, and would be copied for a zygote that forks a few times.
    zygote.collapse = _rehearsed  # type: ignore[attr-defined]
    # What tests have beside their agents is no part of an agent's code (`hitl.driver.code_version`).
    sys.modules["__main__"] = zygote
    for name in [name for name in sys.modules if name.partition(".")[0] == "tests"]:
        del sys.modules[name]
    return zygote.main(request["arguments"])


def _stand_in(directory: str) -> None:
    os.chdir(directory)
    if sys.path[:1] == [str(ROOT)]:  # where the process that forks stands
        sys.path[0] = directory


def _run_program(module: str) -> int:
    sys.modules.pop(module, None)  # so that it is there once
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        if isinstance(ended.code, str):
            raise
        return ended.code or 0
    return 0


@functools.cache
def _prepare_commands() -> None:
    """Import what nearly all of them do, with the first one."""
    for module in COMMANDS:
        import_module(module)
    gc.collect()
    gc.freeze()


def _run_command(request: dict[str, Any]) -> int:
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.chdir(request["directory"])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # As Python has them where it finds a terminal.
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", buffering=1, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    from hitl.cli.app import run

    return run(request["arguments"])


def _rehearsed() -> None:
    """In the place of `hitl.worker.rehearsal.rehearse`, which was run before the fork."""


def _described(text: str) -> str:
    """A tool.

    Args:
        text: What it is given.
    """
    return text


def main() -> int:
    """Import, and fork until nobody wants any more."""
    # What a server and a zygote import, and most agents. Here, for a test's own process needs none of it.
    import hitl
    import hitl.serving.server
    import hitl.worker.zygote
    import tests.python.support.served
    from hitl import _core
    from hitl.worker.rehearsal import rehearse

    del tests, _core
    rehearse()
    hitl.tool(_described)  # what its schema is made with, pydantic above all, is imported by the first one
    hitl.ReActAgent.__module__  # noqa: B018 - public names are imported when they are used
    listening = socket.socket(fileno=int(sys.argv[1]))
    listening.set_inheritable(False)
    gc.collect()
    gc.freeze()  # the collector would copy each page otherwise, in every child
    try:
        _Forker(listening).run()
    except _Become as become:
        request = become.request
    except KeyboardInterrupt:  # which the terminal sends to the tests as well
        return 0
    else:
        return 0
    return _leave(_live(request))


def _leave(code: int) -> NoReturn:
    """End as a program does, but for taking the interpreter apart: that would copy all the memory which a child shares,
    to free it, a third of what a server costs."""
    threading._shutdown()  # type: ignore[attr-defined]  # waits for threads that are no daemons
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:  # as Python says it
            code = 120
    os._exit(code)


if __name__ == "__main__":
    sys.exit(main())
