"""`hitl sessions`: make, look at, talk to and remove sessions."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.text import Text

from hitl.cli import exit_codes
from hitl.cli.connection import (
    DEFAULT_URL,
    ApiKey,
    AsJson,
    SessionId,
    Url,
    checked_id,
    connect,
    retry_command,
    server_url,
)
from hitl.cli.output import print_json, usage_error, wants_json
from hitl.cli.stored import page_of, stored_sessions
from hitl.cli.tables import console, print_fields, print_table, status_text
from hitl.cli.text import exact_json, message_text, one_line, plain
from hitl.strict_json import read_json

if TYPE_CHECKING:
    from hitl.client import Grant, Session

app = typer.Typer(no_args_is_help=True, help="Make, look at, talk to and remove sessions.")

Timeout = Annotated[
    float | None, typer.Option("--timeout", help="Seconds to wait at most.", show_default="no limit", min=0)
]
StatusFilter = Literal["idle", "running", "interrupted", "error"]


@app.command("create")
def create(
    session_id: Annotated[
        str | None,
        typer.Option("--id", callback=checked_id, help="A UUID of your own; the server needs --allow-custom-ids."),
    ] = None,
    state: Annotated[
        Path | None, typer.Option("--state", help="A JSON file with the messages to start with; - is standard input.")
    ] = None,
    url: Url = DEFAULT_URL,
    api_key: ApiKey = None,
    json: AsJson = False,
) -> None:
    """Make a session and print its id."""
    messages = None if state is None else _read_messages(state)
    with connect(url, api_key) as client:
        session = client.create_session(messages, session_id=session_id)
    if wants_json(json):
        print_json(session.raw)
    else:
        console().print(Text(one_line(session.session_id)))


@app.command("list")
def list_(
    status: Annotated[StatusFilter | None, typer.Option("--status", help="Only sessions with this status.")] = None,
    search: Annotated[
        str | None,
        typer.Option("--search", help="Only sessions whose title or id says this.", show_default=False),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", help="How many at most; 0 is all.", min=0)] = 100,
    store: Annotated[
        str | None,
        typer.Option("--store", help="Read this store (as serve has it) and ask no server.", show_default=False),
    ] = None,
    url: Url = DEFAULT_URL,
    api_key: ApiKey = None,
    json: AsJson = False,
) -> None:
    """List sessions, oldest first: those of a server, or of a store's file, whose server may be running."""
    from hitl.cli.pages import collect

    if store is None:
        with connect(url, api_key) as client:
            found = collect(
                lambda size, cursor: client.list_sessions(status=status, q=search, limit=size, cursor=cursor), limit
            )
    else:
        with stored_sessions(store) as sessions:
            found = collect(lambda size, cursor: page_of(sessions, status, search, size, cursor), limit)
    if wants_json(json):
        print_json([session.raw for session in found])
        return
    print_table(
        ["SESSION", "STATUS", "MESSAGES", "TITLE"],
        (
            (item.session_id, status_text(item.status), str(item.total_messages), one_line(item.title or ""))
            for item in found
        ),
        empty="No sessions.",
    )


@app.command("get")
def get(
    session_id: SessionId,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the session is not running.")] = False,
    timeout: Timeout = None,
    url: Url = DEFAULT_URL,
    api_key: ApiKey = None,
    json: AsJson = False,
) -> None:
    """Show a session: its status, its last response, and what it waits for."""
    with connect(url, api_key, session_id) as client:
        session = client.wait(session_id, timeout) if wait else client.get_session(session_id)
    _print_session(session, json, server_url(url))


@app.command("messages")
def messages(session_id: SessionId, url: Url = DEFAULT_URL, api_key: ApiKey = None, json: AsJson = False) -> None:
    """Show a session's messages."""
    with connect(url, api_key, session_id) as client:
        found = client.get_messages(session_id)
    if wants_json(json):
        print_json([message.to_dict() for message in found])
        return
    out = console()
    for message in found:
        out.print(Text(message.role, style="bold"))
        if text := message_text(message):
            out.print(Text(text))
        for call in message.tool_calls or ():
            out.print(Text(exact_json(call), style="cyan"))


@app.command("send")
def send(
    session_id: SessionId,
    message: Annotated[
        str, typer.Argument(metavar="MESSAGE", help="What to say; - reads standard input.", show_default=False)
    ],
    wait: Annotated[bool, typer.Option("--wait", help="Wait for what comes of it.")] = False,
    timeout: Timeout = None,
    url: Url = DEFAULT_URL,
    api_key: ApiKey = None,
    json: AsJson = False,
) -> None:
    """Start a turn with a message. With --wait, exits with 1 when the turn ends in an error."""
    text = sys.stdin.read() if message == "-" else message
    with connect(url, api_key, session_id) as client:
        if not wait:
            accepted = client.send_message(session_id, text)
            _print_accepted(accepted.raw, accepted.status, json)
            return
        session = client.ask(session_id, text, timeout)
    _print_session(session, json, server_url(url))
    if session.status == "error":
        raise typer.Exit(exit_codes.RUNTIME)


@app.command("cancel")
def cancel(session_id: SessionId, url: Url = DEFAULT_URL, api_key: ApiKey = None, json: AsJson = False) -> None:
    """Stop a session's turn and withdraw its interrupts."""
    with connect(url, api_key, session_id) as client:
        accepted = client.cancel(session_id)
    # Its status is `error` from now on, which reads as if it had not worked.
    _print_accepted(accepted.raw, "Cancelled.", json)


@app.command("retry")
def retry(session_id: SessionId, url: Url = DEFAULT_URL, api_key: ApiKey = None, json: AsJson = False) -> None:
    """Take a session's failed turn up again, where it stood.

    After an error that kept the turn's journal, such as model_unavailable, max_steps_exceeded or replay_mismatch.
    """
    with connect(url, api_key, session_id) as client:
        accepted = client.retry(session_id)
    _print_accepted(accepted.raw, accepted.status, json)


@app.command("grants")
def grants(session_id: SessionId, url: Url = DEFAULT_URL, api_key: ApiKey = None, json: AsJson = False) -> None:
    """List what was decided for the rest of a session (`--always`)."""
    with connect(url, api_key, session_id) as client:
        found = client.list_grants(session_id)
    if wants_json(json):
        print_json([grant.raw for grant in found])
        return
    print_table(
        ["GRANT", "DECISION", "AGENT", "TOOL"],
        ((grant.grant_id, grant.decision, grant.agent or "", _granted(grant)) for grant in found),
        empty="Nothing was decided for the rest of this session.",
    )


@app.command("revoke")
def revoke(
    session_id: SessionId,
    grant_id: Annotated[
        str, typer.Argument(metavar="GRANT", callback=checked_id, help="The grant's id.", show_default=False)
    ],
    url: Url = DEFAULT_URL,
    api_key: ApiKey = None,
    json: AsJson = False,
) -> None:
    """Take a grant back: later calls of its tool ask again."""
    with connect(url, api_key, session_id) as client:
        client.revoke_grant(session_id, grant_id)
    if wants_json(json):
        print_json({"session_id": session_id, "grant_id": grant_id, "revoked": True})
    else:
        console().print(Text("Revoked."))


@app.command("delete")
def delete(session_id: SessionId, url: Url = DEFAULT_URL, api_key: ApiKey = None, json: AsJson = False) -> None:
    """Delete a session and everything of it."""
    with connect(url, api_key, session_id) as client:
        client.delete_session(session_id)
    if wants_json(json):
        print_json({"session_id": session_id, "deleted": True})
    else:
        console().print(Text("Deleted."))


def _granted(grant: Grant) -> str:
    source = f" ({grant.tool_source})" if grant.tool_source is not None else ""
    reason = f": {grant.reason}" if grant.reason is not None else ""
    return f"{grant.tool}{source}{reason}"


def _print_accepted(raw: Any, status: str, json: bool) -> None:
    if wants_json(json):
        print_json(raw)
    else:
        console().print(status_text(status))


def _print_session(session: Session, json: bool, url: str) -> None:
    if wants_json(json):
        print_json(session.raw)
        return
    fields: list[tuple[str, str | Text]] = [
        ("session", one_line(session.session_id)),
        ("status", status_text(session.status)),
    ]
    if session.response is not None:
        fields.append(("response", message_text(session.response)))
    if session.error is not None:
        fields.append(("error", Text(plain(session.error), style="red")))
    if session.error_code is not None:
        fields.append(("error code", one_line(session.error_code)))
    if session.can_be_retried:
        fields.append(("retry", retry_command(session.session_id, url)))
    if session.replay is not None:
        if session.replay.impure_at is not None:
            fields.append(("not journaled", f"I/O outside of steps, first at {one_line(session.replay.impure_at)}"))
        fields.extend(("replay waits for", one_line(waits)) for waits in session.replay.waits_for)
        fields.extend(("warning", Text(plain(warning), style="yellow")) for warning in session.replay.warnings)
    fields.extend(
        ("interrupt", f"{one_line(interrupt.interrupt_id)}  {exact_json(interrupt.payload)}")
        for interrupt in session.interrupts
    )
    print_fields(fields)


def _read_messages(path: Path) -> list[Any]:
    try:
        text = sys.stdin.read() if str(path) == "-" else path.read_text(encoding="utf-8")
        found = read_json(text)
    except (OSError, ValueError) as error:
        usage_error(f"--state: cannot read {path}: {error}", "a JSON array of messages, each with role and content")
    if not isinstance(found, list) or not all(isinstance(entry, dict) for entry in found):
        usage_error("--state: not a list of messages", "a JSON array of messages, each with role and content")
    return found


def add_to(root: typer.Typer) -> None:
    root.add_typer(app, name="sessions")
