"""`hitl audit`: who did what, taken out and checked."""

from __future__ import annotations

import json as json_module
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hitl.cli import exit_codes
from hitl.cli.connection import DEFAULT_URL, ApiKey, Url, connect
from hitl.cli.output import Failure, usage_error
from hitl.cli.pages import LARGEST_PAGE
from hitl.cli.stored import stored_sessions

if TYPE_CHECKING:
    from typing import TextIO

app = typer.Typer(no_args_is_help=True, help="Who did what: take the audit out, and check that it is whole.")

Store = Annotated[
    str | None,
    typer.Option("--store", help="Read this store (as serve has it) and ask no server.", show_default=False),
]
_HEAD = re.compile(r"([0-9]{1,18}):([0-9a-f]{64})")


@app.command("export")
def export(
    output: Annotated[
        Path | None, typer.Option("--output", help="A file; standard output without.", show_default=False)
    ] = None,
    store: Store = None,
    url: Url = DEFAULT_URL,
    api_key: ApiKey = None,
) -> None:
    """Write the whole audit as JSON lines, oldest row first, and tell its head, which is worth keeping elsewhere."""
    from hitl._core import AuditVerifier

    verifier = AuditVerifier()
    with _rows(store, url, api_key) as rows:
        if output is None:
            _write(sys.stdout, rows, verifier.take)
            sys.stdout.flush()
        else:
            _write_file(output, rows, verifier.take)
    seq, digest = verifier.finish()
    typer.echo(f"{seq} rows; head {seq}:{digest}", err=True)


@app.command("verify")
def verify(
    file: Annotated[
        Path | None, typer.Argument(help="What `export` wrote; - reads standard input.", show_default=False)
    ] = None,
    head: Annotated[
        str | None,
        typer.Option("--head", help="SEQ:HASH as `export` told it once: the audit has to hold that row."),
    ] = None,
    store: Store = None,
    url: Url = DEFAULT_URL,
    api_key: ApiKey = None,
) -> None:
    """Check that no row of the audit was changed, left out or put in: of a file, a store, or a server.

    A file has to be spelled as `export` spells it, so that it says nothing that its hashes do not bind. Exit code 1
    names the first row that does not fit. That rows are missing at the end shows only with --head.
    """
    from hitl._core import AuditVerifier

    if file is not None and store is not None:
        usage_error("a file and --store exclude each other", "name one of them")
    verifier = AuditVerifier(None if head is None else _parse_head(head))
    try:
        if file is not None:
            with _lines(file) as lines:
                for line in lines:
                    verifier.take_line(line)
        else:
            with _rows(store, url, api_key) as rows:
                for row in rows:
                    verifier.take(row)
        seq, digest = verifier.finish()
    except ValueError as flaw:
        raise Failure(
            f"the audit is not whole: {flaw}",
            "compare it with an earlier export; what was written down elsewhere tells what was there",
            exit_codes.RUNTIME,
        ) from flaw
    typer.echo(f"{seq} rows, whole; head {seq}:{digest}")


def _parse_head(text: str) -> tuple[int, str]:
    found = _HEAD.fullmatch(text)
    if found is None:
        usage_error(f"{text!r} is no head", "for example 12:6b86b2...: a number, a colon, and 64 hex digits")
    return int(found[1]), found[2]


@contextmanager
def _rows(store: str | None, url: str, api_key: str | None) -> Iterator[Iterable[str]]:
    """The rows of a store or a server as lines, page by page."""
    if store is not None:
        with stored_sessions(store) as sessions:
            yield _pages(lambda cursor: sessions.audit(LARGEST_PAGE, cursor))
    else:
        with connect(url, api_key) as client:

            def fetch(cursor: int | None) -> tuple[list[str], int | None]:
                page = client.list_audit(limit=LARGEST_PAGE, cursor=None if cursor is None else str(cursor))
                following = page.next_cursor
                return [_line(row) for row in page], None if following is None else int(following)

            yield _pages(fetch)


def _pages(fetch: Callable[[int | None], tuple[list[str], int | None]]) -> Iterator[str]:
    cursor: int | None = None
    while True:
        rows, cursor = fetch(cursor)
        yield from rows
        if cursor is None:
            return


@contextmanager
def _lines(file: Path) -> Iterator[Iterable[bytes]]:
    """The lines of a file as they are, without their ends."""
    if str(file) == "-":
        yield (line.removesuffix(b"\n") for line in sys.stdin.buffer)
        return
    try:
        with file.open("rb") as opened:
            yield (line.removesuffix(b"\n") for line in opened)
    except OSError as error:
        usage_error(f"cannot read {file}: {error}", "name what `hitl audit export --output FILE` wrote")


def _line(row: object) -> str:
    return json_module.dumps(row, ensure_ascii=False, separators=(",", ":"))


def _write(stream: TextIO, rows: Iterable[str], spell: Callable[[str], str]) -> None:
    """The rows as lines; `spell` looks at each and says its line."""
    try:
        stream.writelines(f"{spell(row)}\n" for row in rows)
    except ValueError as flaw:
        raise Failure(
            f"the audit is not whole: {flaw}", "`hitl audit verify` looks at the same rows", exit_codes.RUNTIME
        ) from flaw


def _write_file(path: Path, rows: Iterable[str], spell: Callable[[str], str]) -> None:
    """All of it or nothing, and for nobody else to read. What is no file, as a pipe, stays and takes it as it comes; a
    link leads to the file.
    """
    with _writing(path, "name a file with --output"):
        if path.exists() and not path.is_file():
            with path.open("w", encoding="utf-8", newline="\n") as stream:
                _write(stream, rows, spell)
            return
        path = path.resolve()
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        usage_error(f"cannot write {path}: {error}", "--output names a file in a directory that is there")
    try:
        with _writing(path, "nothing was written; make room, or name another file with --output"):
            with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as stream:
                _write(stream, rows, spell)
                stream.flush()
                os.fsync(stream.fileno())
            draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


@contextmanager
def _writing(path: Path, hint: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise Failure(f"cannot write {path}: {error}", hint, exit_codes.RUNTIME) from error


def add_to(root: typer.Typer) -> None:
    root.add_typer(app, name="audit")
