"""What is said to whoever runs this process, where saying it must not fail.

``sys.stderr`` is the agent's to replace, and to leave closed: two overlapping ``contextlib.redirect_stderr`` do so. An
error that is raised while another is told would go to whoever called us, and that may be the event loop of all turns.
"""

from __future__ import annotations

import logging
import sys
import traceback

from hitl.journal.error_codec import error_message


def report(text: str) -> None:
    """Write whole lines to standard error, or to what was it when the process began, or nowhere."""
    for stream in (sys.stderr, sys.__stderr__):
        try:
            if stream is not None:
                stream.write(text)
                return
        except Exception:  # noqa: BLE001, S112 - there is nobody left to tell
            continue


def report_error(error: BaseException) -> None:
    """The same with an error and its traceback."""
    try:
        text = "".join(traceback.format_exception(error))
    except Exception:  # noqa: BLE001 - classes of anybody's are at work here
        text = f"{type(error).__name__}: {error_message(error)}\n"
    report(text)


def log_error(logger: logging.Logger, text: str, error: BaseException) -> None:
    """Log an error and its traceback. Handlers of records are anybody's and may raise, and the one that ``logging`` has
    where there is none does so where ``sys.stderr`` is closed: then it is reported."""
    try:
        logger.error(text, exc_info=error, stacklevel=2)
    except Exception:  # noqa: BLE001 - what is to be told is the error before this one
        report(f"{text}\n")
        report_error(error)
