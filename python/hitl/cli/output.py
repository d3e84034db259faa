"""How commands speak to programs, and the error that ends one with a hint. `tables` is for people."""

from __future__ import annotations

import json
import sys
from typing import Any, NoReturn

import typer

from hitl.cli import exit_codes
from hitl.errors import HitlError


class Failure(HitlError):
    """What ends a command: a message, what to do about it, and the exit code."""

    code = "command_failed"

    def __init__(self, message: str, hint: str, exit_code: int = exit_codes.RUNTIME) -> None:
        super().__init__(message, hint, exit_code)
        self.message = message
        self.hint = hint
        self.exit_code = exit_code

    def __str__(self) -> str:
        return self.message


def is_terminal() -> bool:
    """Whether a person sits there: both to read and to type."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def wants_json(asked: bool) -> bool:
    return asked or not sys.stdout.isatty()


def print_json(value: Any) -> None:
    """One JSON document: indented for a person, on one line for a program."""
    # ASCII escapes keep a terminal safe from what agents wrote, whatever the encoding of the output.
    typer.echo(json.dumps(value, indent=2 if sys.stdout.isatty() else None))


def print_json_line(value: Any) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def usage_error(message: str, hint: str) -> NoReturn:
    raise Failure(message, hint, exit_codes.USAGE)
