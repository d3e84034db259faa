"""How commands speak to people: tables, fields, colours, and errors that end in a hint."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hitl.cli.output import Failure
from hitl.cli.text import one_line, plain


def console() -> Console:
    """For standard output as it is now. No markup and no highlighting: what is printed is mostly not ours."""
    return Console(markup=False, highlight=False, emoji=False)


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
    """Names and values, which may hold anything, one to a line."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in fields:
        grid.add_row(one_line(name), value if isinstance(value, Text) else Text(plain(value)))
    console().print(grid)


def print_failure(failure: Failure) -> None:
    errors = Console(stderr=True, markup=False, highlight=False, emoji=False, soft_wrap=True)
    # Servers, stores and agents have their words in it.
    errors.print(Text.assemble(("error", "bold red"), ": ", plain(str(failure))))
    errors.print()
    errors.print(Text.assemble(("hint", "bold cyan"), ": ", plain(failure.hint)))


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
    "alive": "green",
    "draining": "yellow",
    "silent": "red",
}


def status_text(status: str) -> Text:
    return Text(one_line(status), style=STATUS_STYLES.get(status, ""))
