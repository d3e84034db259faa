"""A pseudo-terminal with `hitl` on it: type keys, wait for what the screen says.

`raw` is everything that was sent to it so far, `seen` the same without colours and cursor movements.
"""

from __future__ import annotations

import fcntl
import os
import re
import signal
import struct
import sys
import termios
from types import TracebackType
from typing import Any

import pexpect  # type: ignore[import-untyped]
from pexpect import fdpexpect  # type: ignore[import-untyped]

from tests.python.support.served import clean_environment
from tests.python.support.warm import Forked, Warm, warm

UP, DOWN, ENTER, SPACE, CTRL_C, CTRL_D = "\x1b[A", "\x1b[B", "\r", " ", "\x03", "\x04"

ROWS = 40
PATIENCE = 100.0
"""Seconds in which the screen must say what a test waits for."""

_ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[=>]|\x1b\][^\x07]*\x07")


def environment(**variables: str) -> dict[str, str]:
    """The environment of a child: ours, without what would change how `hitl` behaves."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HITL_", "COLUMNS", "LINES"))}
    # A pseudo-terminal does not answer where its cursor is.
    return {**kept, "TERM": "xterm-256color", "PROMPT_TOOLKIT_NO_CPR": "1", "NO_COLOR": "1", **variables}


def end(child: Any) -> None:
    """However long a busy machine takes: `close(force=True)` gives each signal a tenth of a second, and then up."""
    child.kill(signal.SIGKILL)
    child.wait()
    child.close()


class Terminal:
    """`hitl` with `arguments` on a terminal: forked (`tests.python.support.warm`), or `started` by Python."""

    def __init__(self, *arguments: str, columns: int = 100, started: bool = False, **variables: str) -> None:
        self._forked: Forked | None = None
        forking = None if started else warm(clean_environment())
        if forking is not None:
            self._child = self._fork(forking, arguments, columns, variables)
        else:
            self._child = pexpect.spawn(
                sys.executable,
                ["-m", "hitl", *arguments],
                env=environment(**variables),
                dimensions=(ROWS, columns),
                encoding="utf-8",
                timeout=PATIENCE,
                echo=False,
                # Whoever runs the tests in the background has Ctrl-C ignored, and its children inherit that.
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            )
            # Pexpect waits before each `send` for programs that switch echo off late; we wait for prompts instead.
            self._child.delaybeforesend = None
        self.raw = ""
        self.seen = ""

    def _fork(self, forking: Warm, arguments: tuple[str, ...], columns: int, variables: dict[str, str]) -> Any:
        ours, theirs = os.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, columns, 0, 0))
        settings = termios.tcgetattr(theirs)
        settings[3] &= ~termios.ECHO
        termios.tcsetattr(theirs, termios.TCSANOW, settings)
        try:
            self._forked = forking.fork_command(arguments, environment(**variables), theirs)
        finally:
            os.close(theirs)
        return fdpexpect.fdspawn(ours, encoding="utf-8", timeout=PATIENCE)

    def expect(self, text: str) -> str:
        """Wait until the screen was sent `text` (colours and cursor movements aside); what came before it."""
        escape = r"\x1b\[[0-?]*[ -/]*[@-~]"
        words = (rf"(?:{escape})*".join(map(re.escape, word)) for word in text.split())
        self._child.expect(rf"(?:\s|{escape})*".join(words))
        self.raw += (self._child.before or "") + (self._child.after or "")
        before = _ESCAPES.sub("", self._child.before or "")
        self.seen += before + text
        return before

    def send(self, keys: str) -> None:
        self._child.send(keys)

    def finish(self) -> int:
        """Wait for the program to end; its exit code."""
        self._child.expect(pexpect.EOF)
        self.raw += self._child.before or ""
        self.seen += _ESCAPES.sub("", self._child.before or "")
        self._child.close()
        if self._forked is not None:
            return self._forked.wait(PATIENCE)
        code: int | None = self._child.exitstatus
        assert code is not None, f"killed by signal {self._child.signalstatus}"
        return code

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._forked is None:
            end(self._child)
            return
        self._child.close()
        self._forked.kill()
        self._forked.wait(PATIENCE)
