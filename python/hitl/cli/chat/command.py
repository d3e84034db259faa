"""The command line of `hitl chat`."""

from __future__ import annotations

import os
import re
from typing import Annotated

import typer

from hitl.cli.connection import DEFAULT_URL, ApiKey, checked_id, naming, server_url, url_here
from hitl.cli.output import is_terminal, usage_error


def chat(
    url: Annotated[
        str | None,
        typer.Argument(
            metavar="[URL]",
            envvar="HITL_URL",
            help="Where the server is; by itself on this machine, at HITL_PORT.",
            show_default=False,
        ),
    ] = None,
    message: Annotated[
        str | None,
        typer.Argument(metavar="[MESSAGE]", help="Say this, see the turn to its end, and leave.", show_default=False),
    ] = None,
    session: Annotated[
        str | None,
        typer.Option("--session", callback=checked_id, help="Come back to this session.", show_default=False),
    ] = None,
    api_key: ApiKey = None,
    json: Annotated[
        bool, typer.Option("--json", envvar="HITL_JSON", help="No prompts, JSON lines out, as without a terminal.")
    ] = False,
) -> None:
    """Talk to an agent, and answer what it asks.

    Without a terminal nothing is asked: messages are the lines of standard input (or MESSAGE), and JSON lines with the
    events status, interrupt and response come out. Exits with 1 when a turn ends in an error, and with 6 when one waits
    for a person; answer it with `hitl interrupts`, or come back with --session on a terminal.
    """
    if message is None and url is not None and is_message(url):
        url, message = os.environ.get("HITL_URL"), url
    address = server_url(url or url_here(os.environ))
    if message is not None and not message.strip():
        usage_error("MESSAGE is empty", "leave it out to be asked for one")
    with naming(address, api_key):
        code = _talk(address, api_key, session, message, prompts=not json and is_terminal())
    raise typer.Exit(code)


def _talk(address: str, api_key: str | None, session: str | None, message: str | None, *, prompts: bool) -> int:
    if not prompts:
        from hitl.cli.chat.headless import run_headless

        return run_headless(address, api_key, session, message)
    import asyncio

    from hitl.cli.chat.conversation import Chat

    return asyncio.run(Chat.run(address, api_key, session, message))


def is_message(argument: str) -> bool:
    """Whether the one argument is no URL: the environment says where the server is, or no URL has such a character."""
    told = os.environ.get("HITL_URL") or os.environ.get("HITL_PORT")
    return "://" not in argument and (bool(told) or re.search(r"\s", argument) is not None)


def add_to(app: typer.Typer) -> None:
    app.command("chat", epilog=f"Example: hitl chat {DEFAULT_URL}")(chat)
