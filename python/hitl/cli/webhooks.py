"""`hitl webhooks`: what webhooks are told, and telling them again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.text import Text

from hitl.cli.connection import DEFAULT_URL, ApiKey, AsJson, Url, checked_id, connect
from hitl.cli.output import print_json, usage_error, wants_json
from hitl.cli.tables import console, print_table, status_text
from hitl.cli.text import one_line

if TYPE_CHECKING:
    from hitl.client import Notice

app = typer.Typer(no_args_is_help=True, help="What webhooks are told, and telling them again.")

StatusFilter = Literal["scheduled", "pending", "delivered", "failed"]


@app.command("list")
def list_(
    status: Annotated[StatusFilter | None, typer.Option("--status", help="Only notices with this status.")] = None,
    session: Annotated[str | None, typer.Option("--session", help="Only those of this session.")] = None,
    limit: Annotated[int, typer.Option("--limit", help="How many at most; 0 is all.", min=0)] = 100,
    url: Url = DEFAULT_URL,
    api_key: ApiKey = None,
    json: AsJson = False,
) -> None:
    """List notices, newest first: one for each event and webhook, kept for seven days once they are settled."""
    from hitl.cli.pages import collect

    with connect(url, api_key) as client:
        found = collect(
            lambda size, cursor: client.list_webhooks(status=status, session_id=session, limit=size, cursor=cursor),
            limit,
        )
    if wants_json(json):
        print_json([notice.raw for notice in found])
        return
    print_table(
        ["NOTICE", "STATUS", "TRIES", "EVENT", "TO"],
        (
            (notice.notice_id, status_text(notice.status), str(notice.attempts), notice.event, _where(notice))
            for notice in found
        ),
        empty="Webhooks were told nothing.",
    )


@app.command("retry")
def retry(
    notice_ids: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NOTICE_ID]...", callback=checked_id, help="Ids of failed notices.", show_default=False
        ),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Every notice that was given up, the oldest first.")] = False,
    url: Url = DEFAULT_URL,
    api_key: ApiKey = None,
    json: AsJson = False,
) -> None:
    """Try notices again that were given up, under their own ids."""
    from hitl.cli.pages import collect
    from hitl.client import Conflict

    if every == bool(notice_ids):
        usage_error("name the notices, or say --all", "`hitl webhooks list --status failed` shows them")
    with connect(url, api_key) as client:
        if every:
            failed = collect(lambda size, cursor: client.list_webhooks(status="failed", limit=size, cursor=cursor), 0)
            notice_ids = [notice.notice_id for notice in reversed(failed)]
        retried = []
        for notice_id in notice_ids or []:
            try:
                retried.append(client.retry_webhook(notice_id))
            except Conflict:
                # Of all that were given up, this one is no more: somebody else retries it.
                if not every:
                    raise
    if wants_json(json):
        print_json([notice.raw for notice in retried])
        return
    for notice in retried:
        console().print(Text(f"{one_line(notice.notice_id)} is tried again."))
    if not retried:
        console().print(Text("No notice was given up.", style="dim"))


def _where(notice: Notice) -> str:
    return notice.url if notice.last_error is None else f"{notice.url} ({one_line(notice.last_error)})"


def add_to(root: typer.Typer) -> None:
    root.add_typer(app, name="webhooks")
