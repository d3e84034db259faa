"""`hitl servers`: who has a store in PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.text import Text

from hitl.cli import exit_codes
from hitl.cli.connection import AsJson
from hitl.cli.output import Failure, print_json, usage_error, wants_json
from hitl.cli.tables import print_table, status_text
from hitl.errors import StoreError

SILENT_AFTER = 10_000
"""Milliseconds without a beat after which the others take a server for dead (docs/many-servers.md)."""

Store = Annotated[
    str | None,
    typer.Option("--store", envvar="HITL_STORE", help="postgresql://USER@HOST/DATABASE.", show_default=False),
]

app = typer.Typer(help="List the servers on a database, or ask one to end.")


@app.callback(invoke_without_command=True)
def list_(context: typer.Context, store: Store = None, json: AsJson = False) -> None:
    """List the servers on a database, or ask one to end."""
    if context.invoked_subcommand is not None:
        # Options before the subcommand are its own: `hitl servers --store URL drain NAME`.
        context.obj = store if _is_typed(context) else None
        return
    found = _servers(_named(store))
    if wants_json(json):
        print_json(found)
        return
    print_table(
        ("NAME", "KIND", "STATUS", "HTTP", "TURNS", "BEAT", "VERSION", "CODE", "AGENT"),
        (
            (
                server["name"],
                server["kind"],
                status_text(_status(server)),
                "yes" if server["serves_http"] else "no",
                f"{server['running_workers']}/{server['max_workers']}" if server["max_workers"] else "none",
                f"{server['silent_ms'] / 1000:.1f} s ago",
                server["version"],
                _short(server["code"]) or Text("-", style="dim"),
                server["agent"] or Text("-", style="dim"),
            )
            for server in found
        ),
        empty="No server has this store.",
    )


@app.command("drain")
def drain(
    context: typer.Context,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="As `hitl servers` lists it, or its id.", show_default=False)
    ],
    store: Store = None,
    json: AsJson = False,
) -> None:
    """Ask a server to end as by SIGTERM: it gives away what it has, and its process exits with 0."""
    from hitl import _core

    # What is typed goes before HITL_STORE, on whichever side of the subcommand it stands: it says whose server ends.
    address = _named(store if _is_typed(context) else context.obj or store)
    named = [server for server in _servers(address) if name in (server["name"], server["server_id"])]
    if len(named) > 1:
        ids = ", ".join(server["server_id"] for server in named)
        usage_error(f"{len(named)} servers are called {name}", f"say which by its id: {ids}")
    if named and named[0]["kind"] != "server":
        usage_error(f"{name} is no server but a {named[0]['kind']}", "it ends by itself")
    with _store_errors():
        is_asked = bool(named) and _core.drain_server(address, named[0]["server_id"])
    if not is_asked:
        raise Failure(f"no server is called {name}", "`hitl servers` lists those that there are", exit_codes.NOT_FOUND)
    if wants_json(json):
        print_json({**named[0], "draining": True})
    else:
        typer.echo(f"{name} ends. It is gone from `hitl servers` once it has.")


def _servers(address: str) -> list[dict[str, Any]]:
    from hitl import _core

    with _store_errors():
        return _core.list_servers(address)


def _short(code: str | None) -> str | None:
    from hitl import _core

    return None if code is None else _core.short_code(code)


def _status(server: dict[str, Any]) -> str:
    if server["silent_ms"] >= SILENT_AFTER:
        return "silent"
    return "draining" if server["draining"] else "alive"


def _is_typed(context: typer.Context) -> bool:
    """Whether --store is of the command line, and not of the environment."""
    source = context.get_parameter_source("store")
    # By its name, as in `connection`.
    return source is not None and source.name == "COMMANDLINE"


def _named(store: str | None) -> str:
    if store is None:
        usage_error("which database is not said", "name it with --store postgresql://USER@HOST/DATABASE")
    return store


@contextmanager
def _store_errors() -> Iterator[None]:
    try:
        yield
    except StoreError as error:
        raise Failure(str(error), error.hint or "name the database with --store", exit_codes.USAGE) from error


def add_to(root: typer.Typer) -> None:
    """Add the group."""
    root.add_typer(app, name="servers")
