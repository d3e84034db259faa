"""Options that every command which talks to a server shares, and the client made from them."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from hitl.cli.output import usage_error
from hitl.cli.text import one_line

if TYPE_CHECKING:
    from hitl.client import Client

DEFAULT_URL = "http://127.0.0.1:8000"


def _where_it_is(context: typer.Context, parameter: typer.CallbackParam, given: str) -> str:
    source = context.get_parameter_source(str(parameter.name))
    # By its name: some versions of typer have a click of their own, and with it another enumeration.
    return url_here(os.environ) if source is not None and source.name == "DEFAULT" else given


def url_here(variables: Mapping[str, str]) -> str:
    """`found_here`; where that is not known, it has to be said."""
    url = found_here(variables)
    if url is None:
        port = variables["HITL_PORT"]
        usage_error(f"HITL_PORT={port} does not say where the server is", "name it with --url, or HITL_URL")
    return url


def found_here(variables: Mapping[str, str]) -> str | None:
    """Where a `hitl serve` with these variables would listen, as somebody on the same machine calls it; None: no port
    can be told before, as of HITL_PORT=0."""
    host, port = variables.get("HITL_HOST") or "127.0.0.1", variables.get("HITL_PORT") or "8000"
    if not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        return None
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _checked_key(given: str | None) -> str | None:
    if given is not None:
        # Late: `--help` needs no client.
        from hitl.client.core import check_key

        try:
            check_key(given)
        except ValueError as error:
            usage_error(str(error), 'of a file it is read by --api-key "$(cat FILE)", which leaves the line end out')
    return given


Url = Annotated[
    str,
    typer.Option(
        "--url",
        envvar="HITL_URL",
        callback=_where_it_is,
        help="Where the server is; by itself on this machine, at HITL_PORT.",
    ),
]
ApiKey = Annotated[
    str | None,
    typer.Option(
        "--api-key", envvar="HITL_API_KEY", callback=_checked_key, help="The server's API key.", show_default=False
    ),
]
AsJson = Annotated[
    bool, typer.Option("--json", envvar="HITL_JSON", help="JSON instead of a table; always so when not on a terminal.")
]


def checked_id(parameter: typer.CallbackParam, given: str | list[str] | None) -> str | list[str] | None:
    """An id, or several, none of which is empty or leads to another address."""
    for one in [given] if isinstance(given, str) else given or ():
        if not one.strip("."):
            name = (
                parameter.opts[0] if parameter.param_type_name == "option" else (parameter.metavar or "").strip("[].")
            )
            usage_error(f"{name}: {one!r} is the id of nothing", "does it come from a variable that is not set?")
    return given


SessionId = Annotated[
    str,
    typer.Argument(metavar="SESSION_ID", callback=checked_id, help="The id of a session.", show_default=False),
]
InterruptId = Annotated[
    str,
    typer.Argument(metavar="INTERRUPT_ID", callback=checked_id, help="The id of an interrupt.", show_default=False),
]


def server_url(text: str) -> str:
    """`text` as the URL of a server; `localhost:8000` will do."""
    url = text if "://" in text else f"http://{text}"
    if not re.fullmatch(r"https?://[^\s/]+(/\S*)?", url):
        usage_error(f"{text!r} is not the URL of a server", f"for example {DEFAULT_URL}")
    return url.rstrip("/")


def retry_command(session_id: str, url: str) -> str:
    """What takes up a session's failed turn again, to be copied."""
    where = "" if url == DEFAULT_URL else f" --url {shlex.quote(url)}"
    return f"hitl sessions retry {shlex.quote(one_line(session_id))}{where}"


@contextmanager
def connect(url: str, api_key: str | None, session: str | None = None) -> Iterator[Client]:
    """A client for the length of a `with` block, in which `naming` says what it asked."""
    # Late: `--help` needs no client.
    from hitl.client import Client

    try:
        client = Client(server_url(url), api_key=api_key)
    except ValueError as error:
        usage_error(str(error), f"for example {DEFAULT_URL}")
    with client, naming(client.url.rstrip("/"), api_key, session), _knowing_no_keys(client):
        yield client


@contextmanager
def _knowing_no_keys(client: Client) -> Iterator[None]:
    """That nobody can do what is for some is told where the server has no keys to tell who asks."""
    from hitl.cli.failures import without_keys
    from hitl.client import ClientError, Forbidden

    try:
        yield
    except Forbidden as error:
        if error.code != "not_an_approver":
            raise
        try:
            has_keys = client.me().authentication
        except ClientError:
            raise error from None
        if has_keys:
            raise
        raise without_keys(error) from error


@contextmanager
def naming(server: str, api_key: str | None, session: str | None = None) -> Iterator[None]:
    """What is not there, and a key that is none, is told with the server that was asked, and about which session."""
    from hitl.cli.failures import failure_of
    from hitl.client import Conflict, NotFound, Unauthorized

    try:
        yield
    except (Conflict, NotFound, Unauthorized) as error:
        raise failure_of(error, server, has_key=api_key is not None, session=session) from error
