"""What a server says on standard error besides its log: in one order with it, and without waiting for who reads it."""

from __future__ import annotations

import atexit
import sys

_STANDARD_ERROR = 2


def start_log(level: str, log_format: str) -> None:
    """Start the log of this process, unless it has one. What is in it is written before Python ends."""
    # Late: the command line says what is wrong with an option before it imports what serves.
    from hitl import _core

    if log_format == "auto":
        log_format = "human" if sys.stderr.isatty() else "json"
    if _core.init_logging(level, log_format):
        atexit.register(_core.flush_log)


def say(line: str) -> None:
    """Write a line behind what was logged before; to where a program has led ``sys.stderr``, if it has."""
    from hitl import _core  # late, as in `start_log`

    stream = sys.stderr
    if stream is None:  # it was closed when the program began
        return
    try:
        number = stream.fileno()
    except (AttributeError, OSError, ValueError):  # a program's own, and no file
        number = -1
    if number == _STANDARD_ERROR:
        _core.log_text(f"{line}\n".encode(stream.encoding or "utf-8", "backslashreplace"))
    else:
        stream.write(f"{line}\n")


def flush() -> None:
    """Return when what was said and logged is written, or nobody reads it."""
    from hitl import _core  # late, as in `start_log`

    _core.flush_log()
