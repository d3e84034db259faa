"""`hitl store`: a store as a whole."""

from __future__ import annotations

from time import monotonic
from typing import Annotated, Any

import typer

from hitl.cli import exit_codes
from hitl.cli.connection import AsJson
from hitl.cli.output import Failure, print_json, wants_json
from hitl.errors import StoreError

app = typer.Typer(help="Copy a store into another one.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Copy a store into another one."""


@app.command("copy")
def copy(
    source: Annotated[
        str, typer.Argument(metavar="FROM", help="sqlite:PATH, a path, or postgresql://USER@HOST/DATABASE.")
    ],
    target: Annotated[str, typer.Argument(metavar="TO", help="The same; an empty store, or none yet.")],
    json: AsJson = False,
) -> None:
    """Copy all that a store holds, what waits included, into an empty one. Nobody may have either of them meanwhile."""
    from hitl import _core

    began = monotonic()
    try:
        copied = _core.copy_store(source, target)
    except StoreError as error:
        raise Failure(str(error), error.hint or "check both addresses", exit_codes.USAGE) from error
    if wants_json(json):
        print_json(copied)
        return
    typer.echo(told(copied, monotonic() - began))


def told(copied: dict[str, Any], seconds: float) -> str:
    """What is said of a copy that took so long."""
    rows, waiting = copied["rows"], copied["waiting"]
    return (
        f"Copied {_many(rows['sessions'], 'session')} ({waiting:,} waiting), "
        f"{_many(rows['journal'], 'journal entry', 'journal entries')}, {_many(rows['audit'], 'audit row')}, "
        f"{_many(rows['outbox'], 'notice')} in {seconds:.1f} s.\n"
        "Serve the copy or the original, not both: each would send the notices and run the turns."
    )


def _many(count: int, one: str, many: str | None = None) -> str:
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"


def add_to(root: typer.Typer) -> None:
    """Add the group."""
    root.add_typer(app, name="store")
