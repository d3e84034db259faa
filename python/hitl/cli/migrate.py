"""`hitl migrate`: the schema of a store."""

from __future__ import annotations

from typing import Annotated

import typer

from hitl.cli import exit_codes
from hitl.cli.connection import AsJson
from hitl.cli.output import Failure, print_json, usage_error, wants_json
from hitl.errors import StoreError


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("migrate")(migrate)


def migrate(
    store: Annotated[
        str | None,
        typer.Option(
            "--store", envvar="HITL_STORE", help="postgresql://USER@HOST/DATABASE, or a file.", show_default=False
        ),
    ] = None,
    check: Annotated[
        bool,
        typer.Option("--check", help="Change nothing: exit 0 where the schema is what this version needs, else 5."),
    ] = False,
    sql: Annotated[bool, typer.Option("--sql", help="Print the statements and connect to nothing.")] = False,
    grants: Annotated[
        str | None,
        typer.Option(
            "--grants", metavar="ROLE", help="Let ROLE serve: no tables made, no audit changed.", show_default=False
        ),
    ] = None,
    json: AsJson = False,
) -> None:
    """Make the schema of a store in PostgreSQL, or bring an older one up to date, also that of a file which nobody has.

    A server does the same when it starts."""
    from hitl import _core

    if sql and check:
        usage_error("--sql connects to nothing, and --check asks the database", "leave one of them out")
    if sql:
        typer.echo(_core.schema_script(grants), nl=False)
        return
    if store is None:
        usage_error("which store is not said", "name it with --store postgresql://USER@HOST/DATABASE, or a file")
    if check and grants is not None:
        usage_error("--check changes nothing, and --grants does", "leave one of them out")
    try:
        found, newest = _core.store_schema(store) if check else _core.migrate_store(store, grants)
    except StoreError as error:
        raise Failure(str(error), error.hint or "name the store with --store", exit_codes.USAGE) from error
    if wants_json(json):
        print_json({"found": found, "newest": newest})
    else:
        typer.echo(_told(found, newest, check=check))
    if check and found != newest:
        raise typer.Exit(exit_codes.CONFLICT)


def _told(found: int | None, newest: int, *, check: bool) -> str:
    if found == newest:
        return f"The schema has version {newest}, as this release needs it."
    if check:
        there = "There is no schema" if found is None else f"The schema has version {found}"
        return f"{there}; this release needs version {newest}."
    return f"The schema has version {newest} now."
