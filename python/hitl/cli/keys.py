"""`hitl keys`: who may call a server, and for what."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import Annotated, Any, NoReturn

import typer
from rich.text import Text

from hitl.cli import exit_codes
from hitl.cli.connection import DEFAULT_URL, ApiKey, AsJson, Url, connect
from hitl.cli.output import Failure, print_json, usage_error, wants_json
from hitl.cli.tables import console, print_table
from hitl.cli.text import one_line
from hitl.errors import HitlError, StoreError
from hitl.serving.options import DEFAULT_STORE

app = typer.Typer(
    help="Make, list and revoke the keys that a server asks for. From the first one on it asks everybody.",
    no_args_is_help=True,
)


class Scope(StrEnum):
    """A class, because typer takes no list of literals."""

    READ = "read"
    SEND = "send"
    ANSWER = "answer"
    ADMIN = "admin"


Name = Annotated[str, typer.Argument(metavar="NAME", help="Who holds it.", show_default=False)]
Store = Annotated[
    str | None,
    typer.Option(
        "--store",
        help="Use this store (as serve has it) and ask no server; none may have it.",
        show_default=False,
    ),
]
StoreToRead = Annotated[
    str | None,
    typer.Option(
        "--store",
        help="Read this store (as serve has it) and ask no server; one may have it.",
        show_default=False,
    ),
]

_EXIT_CODES = {"unknown_key": exit_codes.NOT_FOUND, "key_exists": exit_codes.CONFLICT}


@app.command("create")
def create(
    name: Name,
    scope: Annotated[
        list[Scope],
        typer.Option("--scope", help="What it may do; repeat it. admin is everything.", show_default=False),
    ],
    group: Annotated[
        list[str] | None, typer.Option("--group", help="A group that it is in; repeat it.", show_default=False)
    ] = None,
    without_admin: Annotated[
        bool,
        typer.Option("--without-admin", help="Make a server's first key although it can make no others."),
    ] = False,
    store: Store = None,
    url: Url = DEFAULT_URL,
    api_key: ApiKey = None,
    json: AsJson = False,
) -> None:
    """Make a key and print its secret, which is shown this once."""
    scopes = [one.value for one in scope]
    if store is None:
        with connect(url, api_key) as client:
            shuts = Scope.ADMIN not in scope and not client.me().authentication
            if shuts and not without_admin:
                usage_error(
                    f"{client.url.rstrip('/')} has no key yet: from this one on it asks everybody for one, and this "
                    "one can make no others",
                    "make one with --scope admin first, and the others with it (HITL_API_KEY); --without-admin makes "
                    "this one all the same",
                )
            key = client.create_key(name, scopes, group or ())
        record, secret = {member: value for member, value in key.raw.items() if member != "key"}, key.secret or ""
    else:
        from hitl import _core

        shuts = False  # whoever has the file can make another
        _check_store(store)
        with _store_errors():
            record, secret = _core.create_key(store, name, scopes, group or [])
    if wants_json(json):
        print_json({**record, "key": secret})
    else:
        # Whole, for whoever copies it: not even a narrow terminal may break it.
        typer.echo(secret)
    if shuts:
        typer.echo(
            "warning: the server asks everybody for a key from now on, and this one cannot make others\n\n"
            "hint: stop the server and make one that can: hitl keys create NAME --scope admin --store STORE; or start "
            "it with --api-key",
            err=True,
        )


@app.command("list")
def list_(store: StoreToRead = None, url: Url = DEFAULT_URL, api_key: ApiKey = None, json: AsJson = False) -> None:
    """List the keys, the revoked ones too, oldest first."""
    if store is None:
        with connect(url, api_key) as client:
            found: Sequence[Mapping[str, Any]] = [key.raw for key in client.list_keys()]
    else:
        from hitl import _core

        _check_store(store)
        with _store_errors():
            found = _core.list_keys(store)
    if wants_json(json):
        print_json(found)
        return
    print_table(
        ["NAME", "SCOPES", "CREATED", "REVOKED", "GROUPS"],
        (
            (
                key["name"],
                " ".join(key["scopes"]),
                key["created_at"],
                key["revoked_at"] or "",
                " ".join(key["groups"]),
            )
            for key in found
        ),
        empty="No keys.",
    )


@app.command("revoke")
def revoke(
    name: Name, store: Store = None, url: Url = DEFAULT_URL, api_key: ApiKey = None, json: AsJson = False
) -> None:
    """Revoke the key with this name, for good; its sign-ins end with it."""
    if store is None:
        with connect(url, api_key) as client:
            good = [key.key_id for key in client.list_keys() if key.name == name and key.revoked_at is None]
            if not good:
                _unknown(name)
            client.revoke_key(good[0])
    else:
        from hitl import _core

        _check_store(store)
        try:
            with _store_errors():
                _core.revoke_key(store, name)
        except Failure as failure:
            if failure.exit_code == exit_codes.NOT_FOUND:
                _unknown(name, f" --store {shlex.quote(store)}")
            raise
    if wants_json(json):
        print_json({"name": name, "revoked": True})
    else:
        console().print(Text("Revoked."))


def _check_store(store: str) -> None:
    if store == "memory":
        usage_error("--store: memory keeps no keys", f"name a file, such as {DEFAULT_STORE}, or a server with --url")


def _unknown(name: str, where: str = "") -> NoReturn:
    raise Failure(f"no key is named {one_line(name)}", f"`hitl keys list{where}` shows them", exit_codes.NOT_FOUND)


@contextmanager
def _store_errors() -> Iterator[None]:
    try:
        yield
    except StoreError as error:
        hint = error.hint or "name it with --store sqlite:PATH"
        if error.code == "store_locked":
            hint = "leave --store out, and ask the server that has it (--url); or stop it first"
        raise Failure(str(error), hint, exit_codes.USAGE) from error
    except HitlError as error:
        hint = "names are 1 to 64 of a-z, 0-9, dot, hyphen and underscore; `hitl keys list` shows those that are taken"
        raise Failure(str(error), hint, _EXIT_CODES.get(error.code, exit_codes.USAGE)) from error


def add_to(root: typer.Typer) -> None:
    root.add_typer(app, name="keys")
