"""A process that has imported the agent and forks workers: ``python -m hitl.worker.zygote MODULE:ATTR [PATH...]``.

Standard input is a ``SOCK_SEQPACKET`` socket to the server; docs/worker-protocol.md says what goes over it. A fork
copies one thread only, so that a lock which another thread holds would stay locked in the child for ever: an agent
whose import starts threads is refused here (``"fork": false``), and the server starts its workers one by one instead.
For the same reason no event loop is open when it forks.
"""

from __future__ import annotations

import array
import gc
import json
import os
import select
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from hitl import _core
from hitl.driver.code_version import code_version
from hitl.driver.shapes import LoadedAgent
from hitl.errors import AgentLoadError
from hitl.turn import lease
from hitl.turn.resources import END_SECONDS
from hitl.turn.watching import installed
from hitl.worker import isolation
from hitl.worker.child import run_child
from hitl.worker.loading import load_agent, without_collections
from hitl.worker.loops import WorkerLoop
from hitl.worker.open_marks import OpenMarks
from hitl.worker.pages import collapse
from hitl.worker.rehearsal import rehearse

_EXIT_IMPORT = 3
_EXIT_BROKEN = 70
_MAX_MESSAGE = 64 * 1024
_MAX_TEXT = 16 * 1024
_DESCRIPTORS = 3
# What is said about every child. A JSON encoder would make the zygote copy sixty pages after each fork.
_FORKED = b'{"is": "forked", "child": %d, "pid": %d}'
_EXITED = b'{"is": "exited", "child": %d, "code": %d, "signal": null}'
_KILLED = b'{"is": "exited", "child": %d, "code": null, "signal": %d}'
_DEFAULT = int(signal.SIG_DFL)
_LOOK_AGAIN = 0.01
"""Seconds between two looks at children that close what they have open."""


class Zygote:
    """Forks workers on request, until the server closes the control socket; then all of them end."""

    def __init__(self, control: socket.socket, agent: LoadedAgent, code: str, loop: WorkerLoop) -> None:
        self._control = control
        self._agent = agent
        self._code = code
        self._loop = loop
        self._children: dict[int, int] = {}
        """Process ids of living children by their numbers."""
        self._numbers: dict[int, int] = {}
        """The other way round."""
        self._open_marks = OpenMarks()
        self._due: dict[int, float] = {}
        """When those are killed that close what they have open, by their numbers."""
        self._epoll = select.epoll()
        self._woken, self._wakeup = socket.socketpair()
        self._descriptors = [self._epoll.fileno(), control.fileno(), self._woken.fileno(), self._wakeup.fileno()]
        """What no child may keep. It closes them by number: these objects outlive it, as it never returns."""

    def run(self) -> None:
        """Serve the control socket to its end."""
        for end in (self._woken, self._wakeup):
            end.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda _signal, _frame: None)  # without a handler nothing wakes us
        signal.set_wakeup_fd(self._wakeup.fileno(), warn_on_full_buffer=False)
        control, woken = self._control.fileno(), self._woken.fileno()
        self._epoll.register(control, select.EPOLLIN)
        self._epoll.register(woken, select.EPOLLIN)
        try:
            while True:
                ready = [descriptor for descriptor, _ in self._epoll.poll(self._patience())]
                self._kill_due()
                if woken in ready:
                    self._woken.recv(_MAX_MESSAGE)
                    self._reap()
                if control in ready and not self._request():
                    return
        except ConnectionError:  # the server is gone
            return
        finally:
            self._end_children()
            signal.set_wakeup_fd(-1)  # its socket is closed with this object

    def _request(self) -> bool:
        """Handle one message; False at the end of the socket."""
        data, descriptors = _receive(self._control)
        if not data:
            return False
        child, mode = _core.zygote_request(data)  # by Python's decoder it would be another twenty-five pages
        if mode is not None:
            self._fork(child, mode, descriptors)
        elif self._open_marks.has_open(child):
            self._due.setdefault(child, time.monotonic() + END_SECONDS)
        else:
            self._kill(self._children.get(child))
        return True

    def _fork(self, child: int, mode: str, descriptors: Sequence[int]) -> None:
        isolation.flush_output()  # what is buffered would be printed by both
        if (
            len(descriptors) != _DESCRIPTORS
        ):  # the limit of open files is reached: the kernel leaves out what is too much
            for descriptor in descriptors:
                os.close(descriptor)
            self._not_forked(
                child, f"{len(descriptors)} of its {_DESCRIPTORS} descriptors came, are too many files open?"
            )
            return
        parent = os.getpid()
        mark_open = self._open_marks.add(child)
        try:
            pid = os.fork()
        except OSError as error:
            self._not_forked(child, str(error))
            self._open_marks.remove(child)
            pid = None
        if pid == 0:
            try:
                self._become_child(parent, mode, mark_open, *descriptors)
            finally:  # whatever keeps it from becoming one: in the parent's code it would end its siblings
                os._exit(_EXIT_BROKEN)
        for descriptor in descriptors:
            os.close(descriptor)
        if pid is not None:
            self._children[child] = pid
            self._numbers[pid] = child
            self._control.send(_FORKED % (child, pid))

    def _not_forked(self, child: int, error: str) -> None:
        say(self._control, {"is": "exited", "child": child, "code": None, "signal": None, "error": error})

    def _become_child(
        self, parent: int, mode: str, mark_open: Callable[[bool], None] | None, channel: int, stdout: int, stderr: int
    ) -> NoReturn:
        try:
            isolation.die_with(parent)
            os.setpgid(0, 0)  # what the turn starts can be killed with it
            signal.set_wakeup_fd(-1)
            isolation.handle_signal(signal.SIGCHLD, _DEFAULT)
            os.dup2(stdout, 1)
            os.dup2(stderr, 2)
            for descriptor in (stdout, stderr, *self._descriptors):
                os.close(descriptor)
            isolation.set_name("hitl-worker")
            isolation.reseed()
            run_child(channel, self._agent, mode, self._code, self._loop, mark_open)
        except BaseException:  # noqa: BLE001 - whatever it is, it must not go on in the parent's code
            traceback.print_exc()
        finally:
            os._exit(_EXIT_BROKEN)

    def _reap(self) -> None:
        while True:
            try:
                # Left unreaped at first: until then neither its process id nor its group's can be another's.
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:  # there is none left
                return
            if ended is None:
                return
            pid = ended.si_pid
            number = self._numbers.pop(pid, None)
            if number is not None:
                self._children.pop(number)
                self._open_marks.remove(number)
                self._due.pop(number, None)
                self._kill(pid)
            os.waitpid(pid, 0)
            if number is not None:
                message = _EXITED if ended.si_code == os.CLD_EXITED else _KILLED
                self._control.send(message % (number, ended.si_status))

    @staticmethod
    def _kill(pid: int | None) -> None:
        """Kill a child that was not reaped, and whatever it has started in its process group."""
        if pid is None:
            return
        for kill in (os.killpg, os.kill):  # it may be too young to have a group of its own
            try:
                kill(pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):  # no such group; only other users' processes are left in it
                continue

    def _patience(self) -> float | None:
        """How many seconds there are until those are looked at that are to be killed."""
        return _LOOK_AGAIN if self._due else None

    def _kill_due(self) -> None:
        # Those that hold nothing any more, too: a turn that was on its way when the end was wanted has reached them.
        now = time.monotonic()
        over = [child for child, due in self._due.items() if due <= now or not self._open_marks.has_open(child)]
        for child in over:
            del self._due[child]
            self._kill(self._children.get(child))

    def _end_children(self) -> None:
        until = time.monotonic() + END_SECONDS
        closing = set(self._numbers)
        while closing and time.monotonic() < until:
            # As in `_kill_due`: a turn that the server had sent may reach one of them after all.
            for pid in [pid for pid in closing if not self._open_marks.has_open(self._numbers[pid])]:
                closing.remove(pid)
                self._kill(pid)
            # Left unreaped, as in `_reap`; nothing tells of one of several ends without polling, signals aside.
            ends = os.WEXITED | os.WNOHANG | os.WNOWAIT
            closing = {pid for pid in closing if os.waitid(os.P_PID, pid, ends) is None}
            time.sleep(_LOOK_AGAIN if closing else 0.0)
        for pid in self._numbers:
            self._kill(pid)
        for pid in self._numbers:
            os.waitpid(pid, 0)


def _receive(control: socket.socket) -> tuple[bytes, array.array[int]]:
    """The next message, and the descriptors that came along.

    Not by ``socket.recv_fds``: that drops its flags, so that every program which a tool starts would get the channel.
    """
    descriptors = array.array("i")
    data, ancillary, _flags, _address = control.recvmsg(
        _MAX_MESSAGE, socket.CMSG_LEN(_DESCRIPTORS * descriptors.itemsize), socket.MSG_CMSG_CLOEXEC
    )
    for level, kind, content in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            descriptors.frombytes(content[: len(content) - len(content) % descriptors.itemsize])
    return data, descriptors


def say(control: socket.socket, message: dict[str, Any]) -> None:
    """Send one message to the server."""
    control.send(json.dumps(message).encode())


def main(arguments: list[str]) -> int:
    """The zygote's life; the exit code is 3 when the agent cannot be imported."""
    isolation.die_with(None)
    isolation.adopt_orphans()
    isolation.set_name("hitl-zygote")
    control = socket.socket(fileno=isolation.take_standard_input())
    isolation.keep_from_children()
    isolation.leave_terminal()
    isolation.give_back_open_files()
    page = lease.take_page()
    spec, *paths = arguments
    isolation.prepend_paths(paths)
    with without_collections():
        try:
            agent = load_agent(spec)
        except AgentLoadError as error:
            say(control, {"is": "failed", "message": str(error)[:_MAX_TEXT], "hint": error.hint})
            return _EXIT_IMPORT
        code = code_version(agent, paths)
        ready = {
            "is": "ready",
            "pid": os.getpid(),
            "python": ".".join(map(str, sys.version_info[:3])),
            "agent": spec,
            "name": agent.name,
            "code": code,
            "replay": agent.options.replay,
            "pin": agent.options.pin,
        }
        count = isolation.threads()
        if count != 1:
            reason = (
                "its threads cannot be counted" if count is None else f"importing {spec} starts {count - 1} threads"
            )
            say(control, {**ready, "fork": False, "reason": reason})
            return 0
        rehearse()  # whose steps begin although the server may not act yet
        lease.go_by(page)
        watching = installed()
        if watching is not None:
            watching.before_forks()
        loop = WorkerLoop()
        gc.collect()
    collapse()
    gc.freeze()  # a child's collector would otherwise write to, and so copy, every page that we share
    say(control, ready)
    Zygote(control, agent, code, loop).run()
    if watching is not None:
        watching.after_forks()
    loop.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
