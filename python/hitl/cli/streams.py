"""Standard input, output and error: what a command does where one of them is closed, full, or of another encoding."""

from __future__ import annotations

import errno
import io
import os
import sys

from hitl.cli import exit_codes
from hitl.cli.output import Failure

_NAMES = ("stdin", "stdout", "stderr")
"""In the order of their descriptors."""

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)


def open_closed_streams() -> None:
    """Nothing is read from a closed stream, and nothing gets out by it. Without this the next file or connection that
    is opened has its descriptor, and what a library prints, or a process that is started from here, goes there.
    """
    for name in _NAMES:
        if getattr(sys, name) is None:
            # The lowest descriptor that is free, which is this stream's: those before it are open by now.
            null = os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(null, True)
            setattr(sys, name, os.fdopen(null, "r" if name == "stdin" else "w", encoding="utf-8"))


def never_fail_to_read_or_print() -> None:
    """A character that the terminal's encoding lacks must not end a command. What is read and is no text is kept, as it
    is of arguments: whoever sends it says so.
    """
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="surrogateescape")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def unwritable(error: OSError) -> Failure | None:
    """What there is to say of an error of standard output; None where nobody reads it any more. Any other error is
    raised again: one of a file has its name, and commands say by themselves what they could not write.
    """
    if error.filename is not None or error.errno not in (*_NO_ROOM, errno.EPIPE):
        raise error
    _give_up("stdout")
    if error.errno == errno.EPIPE:
        return None
    return Failure(
        f"standard output cannot be written: {error.strerror}",
        "make room, or send it elsewhere; what the command has changed stays changed",
        exit_codes.RUNTIME,
    )


def give_up_errors() -> None:
    """Nothing more is told: there is nowhere to. The exit code says what it would have said."""
    _give_up("stderr")


def _give_up(name: str) -> None:
    """What is left in its buffer goes nowhere: Python would try once more at its end, and exit with another code."""
    stream = getattr(sys, name)
    try:
        number = stream.fileno()
    except (OSError, ValueError):
        return
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, number)
    os.close(null)
