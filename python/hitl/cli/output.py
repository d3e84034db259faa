"""How commands speak: tables on a terminal, JSON otherwise, and errors that end in a hint."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hitl.cli import exit_codes
from hitl.cli.text import one_line
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


def console() -> Console:
    """For standard output as it is now. No markup and no highlighting: what is printed is mostly not ours."""
    return Console(markup=False, highlight=False, emoji=False)


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


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str | Text]], *, empty: str) -> None:
    """A table whose cells may hold anything, long text in the last column; without a row `empty` is said instead."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns[:-1]:
        # An id must come out whole to be of use, and the rest of these is short.
        table.add_column(column, no_wrap=True, min_width=len(column))
    table.add_column(columns[-1], overflow="fold", min_width=10)
    for row in rows:
        table.add_row(*(cell if isinstance(cell, Text) else Text(one_line(cell)) for cell in row))
    if table.row_count:
        console().print(table)
    else:
        console().print(Text(empty, style="dim"))


def print_fields(fields: Iterable[tuple[str, str | Text]]) -> None:
    """Names and values, one to a line."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in fields:
        grid.add_row(name, value if isinstance(value, Text) else Text(value))
    console().print(grid)


def print_failure(failure: Failure) -> None:
    errors = Console(stderr=True, markup=False, highlight=False, emoji=False, soft_wrap=True)
    errors.print(Text.assemble(("error", "bold red"), ": ", str(failure)))
    errors.print()
    errors.print(Text.assemble(("hint", "bold cyan"), ": ", failure.hint))


STATUS_STYLES = {
    "idle": "green",
    "running": "yellow",
    "interrupted": "bold magenta",
    "error": "red",
    "pending": "bold magenta",
    "resolved": "green",
    "expired": "red",
    "cancelled": "dim",
    "scheduled": "dim",
    "delivered": "green",
    "failed": "red",
}


def status_text(status: str) -> Text:
    return Text(one_line(status), style=STATUS_STYLES.get(status, ""))


def usage_error(message: str, hint: str) -> NoReturn:
    raise Failure(message, hint, exit_codes.USAGE)
