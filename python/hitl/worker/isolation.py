"""What makes an operating-system process a good worker: it dies with its parent, and shares nothing by accident."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found,unused-ignore]  # CPython's own module below ``signal``
import contextlib
import fcntl
import os
import resource
import signal
import sys
import termios
from collections.abc import Callable
from pathlib import Path
from typing import Any

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_NAME = 15
_PR_SET_CHILD_SUBREAPER = 36
_STANDARD_ERROR = 2

INSTRUMENT = "HITL_OTEL"
"""Set in the environment of workers whose turns are to be traced; taken out of it before an agent sees it."""


def die_with(parent: int | None) -> None:
    """Ask the kernel to kill this process when its parent dies; end at once if ``parent`` is dead already.

    On systems other than Linux nothing happens: there a worker ends when its channel does.
    """
    prctl = _prctl()
    if prctl is None:
        return
    if prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0) != 0:
        sys.stderr.write("hitl worker: the kernel does not tie this process to its parent's life\n")
    if parent is not None and os.getppid() != parent:
        os._exit(0)


def adopt_orphans() -> None:
    """Become the parent of what children of this process leave behind, and so the one to reap it.

    Else that is process 1, which in a container is the server itself: it never looks for children that it does not
    know, and each program that a turn left over would be a zombie for ever. On systems other than Linux nothing
    happens.
    """
    prctl = _prctl()
    if prctl is not None and prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        sys.stderr.write("hitl worker: the kernel gives what a turn leaves over to process 1\n")


# ``signal.signal`` also looks both arguments up in enums, which makes a fresh fork copy fifty pages of its parent's.
handle_signal: Callable[[int, Any], object] = _signal.signal


def set_name(name: str) -> None:
    """What ``ps`` and ``top`` show for this process: at most 15 bytes."""
    prctl = _prctl()
    if prctl is not None:
        prctl(_PR_SET_NAME, name.encode(), 0, 0, 0)


def hide() -> None:
    """Keep this process's memory, environment and descriptors from others of its user, who may read their own.

    For a server: a tool that reads files would find its key in ``/proc``. What is executed from here is not hidden. On
    systems other than Linux, and for root, nothing changes.
    """
    prctl = _prctl()
    if prctl is not None and prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
        sys.stderr.write("hitl serve: the kernel does not keep this process from others of its user\n")


def flush_output() -> None:
    """Hand over what was printed, as far as that is possible."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):  # the reader is gone, or the agent closed or replaced it
            continue


def reseed() -> None:
    """Give this process random numbers of its own. ``random`` does that by itself after a fork, numpy does not."""
    numpy_random: Any = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed()


def take_standard_input() -> int:
    """The descriptor that came as standard input, moved out of the way of whoever reads input; that is empty now."""
    taken = os.dup(0)
    empty = os.open(os.devnull, os.O_RDONLY)
    try:
        os.dup2(empty, 0)
    finally:
        os.close(empty)
    return taken


def leave_terminal() -> None:
    """Have no terminal, where the server was started at one.

    A worker has a process group of its own, which is never in the foreground: a program of a tool that reads from the
    terminal (ssh, git and sudo ask for a password there) would stop the whole group, with all turns in it. Without one
    such a program is told so, and fails.
    """
    if os.getsid(0) == os.getpid():  # its own; to leave it would hang up on whatever else is in the session
        return
    try:
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)
    except OSError:  # there is none
        return
    try:
        fcntl.ioctl(terminal, termios.TIOCNOTTY)
    except OSError as error:
        sys.stderr.write(f"hitl worker: the terminal cannot be left: {error}\n")
    finally:
        os.close(terminal)


def keep_from_children() -> None:
    """No program that this process starts gets more than standard input, output and error.

    What Python opens is so already; what the server itself was started with is not.
    """
    for folder in ("/proc/self/fd", "/dev/fd"):
        try:
            numbers = [int(entry.name) for entry in Path(folder).iterdir()]
        except OSError:
            continue
        for number in numbers:
            if number > _STANDARD_ERROR:
                with contextlib.suppress(OSError):  # the one by which they were listed is closed again
                    os.set_inheritable(number, False)
        return


def give_back_open_files() -> None:
    """Set the limit of open files to what the server was started with, before it raised its own.

    Programs that a tool starts may rely on it: those that call ``select``, or that close every number up to the limit.
    """
    limit = os.environ.pop("HITL_OPEN_FILES", None)
    if limit is not None:
        highest = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (int(limit), highest))


def threads() -> int | None:
    """How many operating-system threads this process has; None where that cannot be known."""
    try:
        return len(list(Path("/proc/self/task").iterdir()))
    except OSError:
        return None


def prepend_paths(paths: list[str]) -> None:
    """Put directories before everything else on ``sys.path``, in their order."""
    sys.path[:0] = [path for path in paths if path not in sys.path[: len(paths)]]


_prctl_function: Any = None


def _prctl() -> Any:
    """The C function, looked up once; None where there is none."""
    global _prctl_function
    if _prctl_function is None and sys.platform == "linux":
        try:
            import ctypes

            _prctl_function = ctypes.CDLL(None).prctl
        except (ImportError, OSError, AttributeError):  # a Python without ctypes, a C library without prctl
            return None
    return _prctl_function
