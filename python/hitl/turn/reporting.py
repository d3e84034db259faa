"""What is said to whoever runs this process, where saying it must not fail.

``sys.stderr`` is the agent's to replace, and to leave closed: two overlapping ``contextlib.redirect_stderr`` do so. An
error that is raised while another is told would go to whoever called us, and that may be the event loop of all turns.
"""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Callable

from hitl.journal.error_codec import error_message

raised_here: list[Callable[[str, BaseException], None]] = []
"""Who is told, with the session's id, what ended a turn in this process: tests, whose process is the agent's too."""


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


def frames_outside(error: BaseException) -> str:
    """The traceback of an error from the first frame on that is no code of hitl, without the error's text, which may
    hold arguments; empty where there is no such frame, as for an error that a replay reads back."""
    frames = list(traceback.walk_tb(error.__traceback__))
    while frames and _is_hitls(frames[0][0].f_globals.get("__name__")):
        del frames[0]
    return "".join(traceback.StackSummary.extract(iter(frames)).format())


def _is_hitls(module: object) -> bool:
    name = str(module)
    return (name == "hitl" or name.startswith("hitl.")) and not name.startswith("hitl.examples.")


def log_error(logger: logging.Logger, text: str, error: BaseException) -> None:
    """Log an error and its traceback. Handlers of records are anybody's and may raise, and the one that ``logging`` has
    where there is none does so where ``sys.stderr`` is closed: then it is reported."""
    try:
        logger.error(text, exc_info=error, stacklevel=2)
    except Exception:  # noqa: BLE001 - what is to be told is the error before this one
        report(f"{text}\n")
        report_error(error)
