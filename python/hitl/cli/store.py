"""`hitl store`: a store as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Annotated, Any

import typer

from hitl.cli import exit_codes
from hitl.cli.connection import AsJson
from hitl.cli.output import Failure, print_json, wants_json
from hitl.errors import StoreError

app = typer.Typer(help="Check a store, copy it into another one, or adopt a restored one.", no_args_is_help=True)


_RESTORE = (
    ("malformed", "the file is damaged, or a part of it is missing: keep it as it is, and restore a backup of it"),
    ("is not a database", "name the file of a store; where it was one, restore a backup of it"),
)
"""Of a file that was to be checked, and is not to be made."""


@app.callback()
def _group() -> None:
    """Check a store, copy it into another one, or adopt a restored one."""


@app.command("adopt")
def adopt(
    store: Annotated[str, typer.Argument(metavar="STORE", help="postgresql://USER@HOST/DATABASE, restored or copied.")],
    json: AsJson = False,
) -> None:
    """Make a database that was restored or copied elsewhere the one that is served: its notices go out from now on.

    Until then its servers send no webhook. Says what may happen a second time.
    """
    from hitl import _core

    with _naming("check the address"):
        adopted = _core.adopt_store(store)
    if wants_json(json):
        print_json(adopted)
        return
    typer.echo(told_of_adopting(adopted))


def told_of_adopting(adopted: dict[str, Any]) -> str:
    """What is said of a database that was adopted."""
    if not adopted["was_restored"]:
        return "This database is where it was served before: there is nothing to adopt."
    lines = ["Adopted. What happened after the backup is not in it, and may happen again:"]
    if adopted["notices"]:
        notices = _many(adopted["notices"], "notice")
        lines.append(f"- {notices} that the original may have sent, the first of {adopted['oldest_notice']}.")
    if adopted["under_way"]:
        lines.append(
            f"- steps of {_many(adopted['under_way'], 'turn')} that {_were(adopted['under_way'])} in a server's memory."
        )
    if adopted["waiting"]:
        lines.append(f"- questions of {_many(adopted['waiting'], 'session')}, which somebody may have answered.")
    lines.append("Serve this database or the original, not both.")
    return "\n".join(lines)


@app.command("check")
def check(
    store: Annotated[
        str, typer.Argument(metavar="STORE", help="sqlite:PATH, a path, or postgresql://USER@HOST/DATABASE.")
    ],
    json: AsJson = False,
) -> None:
    """Look whether what a store holds fits together, while servers are at work on it. Changes nothing.

    Sessions against their messages, turns and interrupts, journals against what waits, notices, and the audit. Exit
    code 1 tells what does not fit, a line each: which kind, in which session, what.
    """
    from hitl import _core

    with _naming("check the address", wrong=_RESTORE):
        checked = _core.check_store(store)
    problems, more = checked["problems"], checked["more"]
    if wants_json(json):
        print_json(checked)
    else:
        for problem in problems:
            typer.echo(f"{problem['kind']}  {problem['session_id'] or '-'}  {problem['what']}")
        typer.echo(f"Looked at {_counted(checked['rows'])}{'.' if problems else ': all of it fits.'}")
    if problems:
        raise Failure(
            f"{_many(len(problems) + more, 'thing does', 'things do')} not fit",
            "nothing was changed; keep the store as it is, look at a backup, and report what it says",
            exit_codes.RUNTIME,
        )


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
    with _naming("check both addresses"):
        copied = _core.copy_store(source, target)
    if wants_json(json):
        print_json(copied)
        return
    typer.echo(told(copied, monotonic() - began))


def told(copied: dict[str, Any], seconds: float) -> str:
    """What is said of a copy that took so long."""
    return (
        f"Copied {_counted(copied['rows'], copied['waiting'])} in {seconds:.1f} s.\n"
        "Serve the copy or the original, not both: each would send the notices and run the turns."
    )


def _counted(rows: dict[str, int], waiting: int | None = None) -> str:
    """The tables that people know, with how many of the sessions wait."""
    counted = [
        _many(rows["sessions"], "session") + ("" if waiting is None else f" ({waiting:,} waiting)"),
        _many(rows["journal"], "journal entry", "journal entries"),
        _many(rows["audit"], "audit row"),
        _many(rows["outbox"], "notice"),
    ]
    return ", ".join(counted)


@contextmanager
def _naming(hint: str, wrong: tuple[tuple[str, str], ...] = ()) -> Iterator[None]:
    """A store that cannot be opened, with what to do where its error does not say.

    wrong: hints in the place of those that are for a server, by a part of what is said.
    """
    try:
        yield
    except StoreError as error:
        other = next((other for part, other in wrong if part in str(error)), None)
        raise Failure(str(error), other or error.hint or hint, exit_codes.USAGE) from error


def _were(count: int) -> str:
    return "was" if count == 1 else "were"


def _many(count: int, one: str, many: str | None = None) -> str:
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"


def add_to(root: typer.Typer) -> None:
    """Add the group."""
    root.add_typer(app, name="store")
