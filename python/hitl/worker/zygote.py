"""A process that has imported the agent and forks workers: ``python -m hitl.worker.zygote MODULE:ATTR [PATH...]``.

Standard input is a ``SOCK_SEQPACKET`` socket to the server; docs/worker-protocol.md says what goes over it. A fork
copies one thread only, so that a lock which another thread holds would stay locked in the child for ever: an agent
whose import starts threads is refused here (``"fork": false``), and the server starts its workers one by one instead.
For the same reason no event loop is open when it forks.
"""

from __future__ import annotations

import gc
import json
import os
import selectors
import signal
import socket
import sys
import traceback
from typing import Any, NoReturn

from hitl.agents.shapes import LoadedAgent
from hitl.errors import AgentLoadError
from hitl.worker import isolation
from hitl.worker.child import run_child
from hitl.worker.code_version import code_version
from hitl.worker.loading import load_agent
from hitl.worker.rehearsal import rehearse

_EXIT_IMPORT = 3
_EXIT_BROKEN = 70
_MAX_MESSAGE = 64 * 1024
_MAX_TEXT = 16 * 1024
_DESCRIPTORS = 3


class Zygote:
    """Forks workers on request, until the server closes the control socket; then all of them end."""

    def __init__(self, control: socket.socket, agent: LoadedAgent, code: str) -> None:
        self._control = control
        self._agent = agent
        self._code = code
        self._children: dict[int, int] = {}
        """Process ids of living children by their numbers."""
        self._numbers: dict[int, int] = {}
        """The other way round."""
        self._selector = selectors.DefaultSelector()
        self._woken, self._wakeup = socket.socketpair()

    def run(self) -> None:
        """Serve the control socket to its end."""
        for end in (self._woken, self._wakeup):
            end.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda _signal, _frame: None)  # without a handler nothing wakes us
        signal.set_wakeup_fd(self._wakeup.fileno(), warn_on_full_buffer=False)
        self._selector.register(self._control, selectors.EVENT_READ)
        self._selector.register(self._woken, selectors.EVENT_READ)
        try:
            while True:
                ready = {key.fileobj for key, _ in self._selector.select()}
                if self._woken in ready:
                    self._drain()
                    self._reap()
                if self._control in ready and not self._request():
                    return
        except ConnectionError:  # the server is gone
            return
        finally:
            self._end_children()

    def _drain(self) -> None:
        try:
            while self._woken.recv(4096):
                pass
        except BlockingIOError:
            return

    def _request(self) -> bool:
        """Handle one message; False at the end of the socket."""
        data, descriptors, _flags, _address = socket.recv_fds(
            self._control, _MAX_MESSAGE, _DESCRIPTORS, socket.MSG_CMSG_CLOEXEC
        )
        if not data:
            return False
        request = json.loads(data)
        if request["do"] == "fork":
            self._fork(request["child"], request["mode"], descriptors)
        elif request["do"] == "kill":
            self._kill(self._children.get(request["child"]))
        else:
            raise ValueError(f"unknown request {request['do']!r}")
        return True

    def _fork(self, child: int, mode: str, descriptors: list[int]) -> None:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()  # what is buffered would be printed by both
        parent = os.getpid()
        try:
            pid = os.fork()
        except OSError as error:
            self._say({"is": "exited", "child": child, "code": None, "signal": None, "error": str(error)})
            pid = None
        if pid == 0:
            self._become_child(parent, mode, *descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        if pid is not None:
            self._children[child] = pid
            self._numbers[pid] = child
            self._say({"is": "forked", "child": child, "pid": pid})

    def _become_child(self, parent: int, mode: str, channel: int, stdout: int, stderr: int) -> NoReturn:
        try:
            isolation.die_with(parent)
            os.setpgid(0, 0)  # what the turn starts can be killed with it
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            self._selector.close()
            for end in (self._control, self._woken, self._wakeup):
                end.close()
            os.dup2(stdout, 1)
            os.dup2(stderr, 2)
            os.close(stdout)
            os.close(stderr)
            isolation.set_name("hitl-worker")
            isolation.reseed()
            run_child(channel, self._agent, mode, self._code)
        except BaseException:  # noqa: BLE001 - whatever it is, it must not go on in the parent's code
            traceback.print_exc()
        finally:
            os._exit(_EXIT_BROKEN)

    def _reap(self) -> None:
        while self._numbers:
            # Left unreaped at first: until then neither its process id nor its group's can be another's.
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended is None:
                return
            pid = ended.si_pid
            number = self._numbers.pop(pid, None)
            if number is not None:
                self._children.pop(number)
                self._kill(pid)
            os.waitpid(pid, 0)
            if number is not None:
                exited = ended.si_code == os.CLD_EXITED
                self._say(
                    {
                        "is": "exited",
                        "child": number,
                        "code": ended.si_status if exited else None,
                        "signal": None if exited else ended.si_status,
                    }
                )

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

    def _end_children(self) -> None:
        for pid in self._numbers:
            self._kill(pid)
        for pid in self._numbers:
            os.waitpid(pid, 0)

    def _say(self, message: dict[str, Any]) -> None:
        say(self._control, message)


def say(control: socket.socket, message: dict[str, Any]) -> None:
    """Send one message to the server."""
    control.send(json.dumps(message).encode())


def main(arguments: list[str]) -> int:
    """The zygote's life; the exit code is 3 when the agent cannot be imported."""
    isolation.die_with(None)
    isolation.set_name("hitl-zygote")
    control = socket.socket(fileno=isolation.take_standard_input())
    spec, *paths = arguments
    isolation.prepend_paths(paths)
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
        "code": code,
        "replay": agent.options.replay,
    }
    count = isolation.threads()
    if count != 1:
        reason = "its threads cannot be counted" if count is None else f"importing {spec} starts {count - 1} threads"
        say(control, {**ready, "fork": False, "reason": reason})
        return 0
    rehearse()
    gc.collect()
    gc.freeze()  # a child's collector would otherwise write to, and so copy, every page that we share
    say(control, ready)
    Zygote(control, agent, code).run()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
