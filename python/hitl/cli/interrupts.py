"""`hitl interrupts`: what waits for a person, over all sessions, and answering it."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.text import Text
from typer.core import TyperCommand

from hitl.cli.connection import DEFAULT_URL, ApiKey, AsJson, InterruptId, Url, connect
from hitl.cli.output import print_json, print_json_line, usage_error, wants_json
from hitl.cli.tables import console, print_fields, print_table, status_text
from hitl.cli.text import exact_json, one_line, plain
from hitl.strict_json import read_json

if TYPE_CHECKING:
    from hitl.client import Accepted, Event, Interrupt

app = typer.Typer(no_args_is_help=True, help="What waits for a person, over all sessions, and answering it.")


def _finite(given: float) -> float:
    if not math.isfinite(given):
        usage_error(f"--seconds: {given:g} is no number of seconds", "for example --seconds 300")
    return given


Always = Annotated[
    bool,
    typer.Option("--always", help="Also later calls of this tool in this session; `hitl sessions grants` lists it."),
]
As = Annotated[
    str | None,
    typer.Option(
        "--as", metavar="NAME", envvar="HITL_AS", help="Who you are, where the server has no keys.", show_default=False
    ),
]
StatusFilter = Literal["pending", "resolved", "expired", "cancelled", "all"]


@app.command("list")
def list_(
    status: Annotated[StatusFilter, typer.Option("--status", help="Only interrupts with this status.")] = "pending",
    type: Annotated[str | None, typer.Option("--type", help="For example tool_approval or user_input.")] = None,
    tool: Annotated[str | None, typer.Option("--tool", help="Only approvals of this tool.")] = None,
    session: Annotated[str | None, typer.Option("--session", help="Only those of this session.")] = None,
    agent: Annotated[str | None, typer.Option("--agent", help="Only those of this agent.")] = None,
    created_after: Annotated[
        str | None, typer.Option("--created-after", help="For example 2026-11-30T12:00:00Z.")
    ] = None,
    claimed_by: Annotated[str | None, typer.Option("--claimed-by", help="Only those that somebody works on.")] = None,
    snoozed: Annotated[
        bool | None, typer.Option("--snoozed/--not-snoozed", help="Only those that are put off, or are not.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", help="How many at most; 0 is all.", min=0)] = 100,
    url: Url = DEFAULT_URL,
    api_key: ApiKey = None,
    json: AsJson = False,
) -> None:
    """List interrupts, newest first; those that are pending unless told otherwise."""
    from hitl.cli.pages import collect

    with connect(url, api_key) as client:
        found = collect(
            lambda size, cursor: client.list_interrupts(
                status=None if status == "all" else status,
                type=type,
                tool=tool,
                session_id=session,
                agent=agent,
                created_after=created_after,
                claimed_by=claimed_by,
                snoozed=snoozed,
                limit=size,
                cursor=cursor,
            ),
            limit,
        )
    if wants_json(json):
        print_json([interrupt.raw for interrupt in found])
        return
    print_table(
        ["INTERRUPT", "STATUS", "AGE", "ASKS"],
        ((item.interrupt_id, status_text(item.status), _age(item.created_at), summary(item)) for item in found),
        empty="Nothing waits for a person." if status == "pending" else "No interrupts.",
    )


@app.command("show")
def show(interrupt_id: InterruptId, url: Url = DEFAULT_URL, api_key: ApiKey = None, json: AsJson = False) -> None:
    """Show everything about one interrupt; what a decision has to look like only with --json."""
    with connect(url, api_key) as client:
        interrupt = client.get_interrupt(interrupt_id)
    if wants_json(json):
        print_json(interrupt.raw)
        return
    # That of decisions is long, and the same for every call of the tool; `allowed_decisions` says what it means.
    left_out = () if interrupt.allowed_decisions is None else ("response_schema",)
    shown = ((name, value) for name, value in interrupt.raw.items() if value is not None and name not in left_out)
    print_fields((name, _field(name, value)) for name, value in shown)


@app.command("approve")
def approve(
    interrupt_id: InterruptId,
    always: Always = False,
    name: As = None,
    url: Url = DEFAULT_URL,
    api_key: ApiKey = None,
    json: AsJson = False,
) -> None:
    """Let a tool run with exactly the arguments that `show` shows."""
    with connect(url, api_key) as client:
        _print_accepted(client.approve(interrupt_id, always=always, name=name), json)


@app.command("edit")
def edit(
    interrupt_id: InterruptId,
    args: Annotated[
        str,
        typer.Argument(
            metavar="ARGS", help="All of its arguments as JSON; - reads standard input.", show_default=False
        ),
    ],
    name: As = None,
    url: Url = DEFAULT_URL,
    api_key: ApiKey = None,
    json: AsJson = False,
) -> None:
    """Let a tool run with other arguments; the model is told."""
    arguments = _parse(sys.stdin.read() if args == "-" else args, """arguments are an object: '{"name": "value"}'""")
    if not isinstance(arguments, dict):
        usage_error("the arguments are no JSON object", """for example '{"path": "/tmp/x"}'""")
    with connect(url, api_key) as client:
        _print_accepted(client.edit(interrupt_id, arguments, name=name), json)


@app.command("respond")
def respond(
    interrupt_id: InterruptId,
    message: Annotated[
        str,
        typer.Argument(metavar="JSON", help="The tool's result as JSON; - reads standard input.", show_default=False),
    ],
    name: As = None,
    url: Url = DEFAULT_URL,
    api_key: ApiKey = None,
    json: AsJson = False,
) -> None:
    """Answer in a tool's place: it does not run."""
    value = _parse(sys.stdin.read() if message == "-" else message)
    with connect(url, api_key) as client:
        _print_accepted(client.respond(interrupt_id, value, name=name), json)


class _Reject(TyperCommand):
    """Whose reason is easily taken for an argument."""

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        try:
            return super().parse_args(ctx, args)
        except Exception as error:  # by its words: typer has this class of click's under no name of its own
            said = getattr(error, "message", "")
            if isinstance(said, str) and "unexpected extra argument" in said:
                vars(error)["message"] = f"{said}. A reason is an option: --reason 'not now'"
            raise


@app.command("reject", cls=_Reject)
def reject(
    interrupt_id: InterruptId,
    reason: Annotated[str | None, typer.Option("--reason", help="Why; the model hears it.")] = None,
    message: Annotated[
        str | None, typer.Option("--message", help="What the model hears instead of the built-in text.")
    ] = None,
    always: Always = False,
    name: As = None,
    url: Url = DEFAULT_URL,
    api_key: ApiKey = None,
    json: AsJson = False,
) -> None:
    """Do not let a tool run."""
    with connect(url, api_key) as client:
        _print_accepted(client.reject(interrupt_id, reason, message=message, always=always, name=name), json)


@app.command("answer")
def answer(
    interrupt_id: InterruptId,
    value: Annotated[
        str,
        typer.Argument(metavar="JSON", help="The answer as JSON; - reads standard input.", show_default=False),
    ],
    name: As = None,
    url: Url = DEFAULT_URL,
    api_key: ApiKey = None,
    json: AsJson = False,
) -> None:
    """Answer an interrupt of any type, for example '{"answers": {"Which one?": "The first"}}'."""
    text = sys.stdin.read() if value == "-" else value
    with connect(url, api_key) as client:
        _print_accepted(client.answer(interrupt_id, _parse(text), name=name), json)


@app.command("claim")
def claim(
    interrupt_id: InterruptId,
    seconds: Annotated[float, typer.Option("--seconds", callback=_finite, help="For how long.")] = 300.0,
    name: As = None,
    url: Url = DEFAULT_URL,
    api_key: ApiKey = None,
    json: AsJson = False,
) -> None:
    """Make an interrupt yours for a while: nobody else can answer it until then."""
    with connect(url, api_key) as client:
        _print_triage(client.claim(interrupt_id, seconds=seconds, name=name), json)


@app.command("release")
def release(
    interrupt_id: InterruptId, name: As = None, url: Url = DEFAULT_URL, api_key: ApiKey = None, json: AsJson = False
) -> None:
    """Give up a claim; with an admin's key anybody's."""
    with connect(url, api_key) as client:
        _print_triage(client.release(interrupt_id, name=name), json)


@app.command("snooze")
def snooze(
    interrupt_id: InterruptId,
    seconds: Annotated[float, typer.Option("--seconds", callback=_finite, help="For how long.", show_default=False)],
    name: As = None,
    url: Url = DEFAULT_URL,
    api_key: ApiKey = None,
    json: AsJson = False,
) -> None:
    """Put an interrupt off. That is no no: it stays pending, and can be answered."""
    with connect(url, api_key) as client:
        _print_triage(client.snooze(interrupt_id, seconds, name=name), json)


@app.command("unsnooze")
def unsnooze(interrupt_id: InterruptId, url: Url = DEFAULT_URL, api_key: ApiKey = None, json: AsJson = False) -> None:
    """Put an interrupt off no longer."""
    with connect(url, api_key) as client:
        _print_triage(client.unsnooze(interrupt_id), json)


@app.command("watch")
def watch(
    session: Annotated[str | None, typer.Option("--session", help="Only those of this session.")] = None,
    url: Url = DEFAULT_URL,
    api_key: ApiKey = None,
    json: AsJson = False,
) -> None:
    """Print what is pending, then every interrupt as it is opened, answered, expired or withdrawn, until Ctrl-C."""
    from hitl.cli.pages import collect

    as_json = wants_json(json)
    with connect(url, api_key) as client, client.events(session) as events:
        # Listed after the stream is open, so that nothing falls between the two.
        pending = collect(
            lambda size, cursor: client.list_interrupts(
                status="pending", session_id=session, limit=size, cursor=cursor
            ),
            0,
        )
        for interrupt in reversed(pending):
            _print_change("interrupt.created", interrupt, as_json)
        for event in events:
            if event.type.startswith("interrupt.") and event.interrupt_id is not None:
                if (record := _interrupt_of(event)) is None:
                    _print_gone(event, as_json)
                else:
                    _print_change(event.type, record, as_json)


def summary(interrupt: Interrupt) -> str:
    """What an interrupt asks, in one line."""
    if interrupt.type == "tool_approval" and interrupt.tool_name is not None:
        source = f" ({one_line(interrupt.tool_source)})" if interrupt.tool_source is not None else ""
        return f"{one_line(str(interrupt.tool_name))}{source} {exact_json(interrupt.tool_args)}"
    if interrupt.type == "user_input" and isinstance(interrupt.payload.get("questions"), list):
        asked = [str(entry.get("question")) for entry in interrupt.payload["questions"] if isinstance(entry, dict)]
        return one_line(" / ".join(asked))
    if interrupt.payload.keys() <= {"type", "prompt"} and isinstance(prompt := interrupt.payload.get("prompt"), str):
        return f"{one_line(interrupt.type)}: {one_line(interrupt.message or prompt)}"
    return f"{one_line(interrupt.type)} {interrupt.message or exact_json(interrupt.payload)}"


def _interrupt_of(event: Event) -> Interrupt | None:
    """The interrupt in the event itself, where the server puts the record there."""
    from hitl.client import Interrupt

    return Interrupt.from_json(event.data) if {"type", "payload"} <= event.data.keys() else None


def _print_change(event: str, interrupt: Interrupt, as_json: bool) -> None:
    if as_json:
        print_json_line({"event": event, **interrupt.raw})
        return
    what = event.removeprefix("interrupt.")
    line = Text.assemble(
        status_text("pending" if what == "created" else what), f"  {one_line(interrupt.interrupt_id)}  "
    )
    line.append(one_line(summary(interrupt)))
    console().print(line, soft_wrap=True)


def _print_gone(event: Event, as_json: bool) -> None:
    """One that went with its session: the event names it, and there is nothing left to ask for."""
    if as_json:
        print_json_line({"event": event.type, **event.data})
        return
    what = status_text(event.type.removeprefix("interrupt."))
    console().print(Text.assemble(what, f"  {one_line(str(event.interrupt_id))}  "), "with its session", soft_wrap=True)


def _print_accepted(accepted: Accepted, json: bool) -> None:
    if wants_json(json):
        print_json(accepted.raw)
        return
    taken = "This was the answer already" if accepted.replayed else "Answered"
    console().print(Text.assemble(f"{taken}; the session is ", status_text(accepted.status), "."))


def _print_triage(interrupt: Interrupt, json: bool) -> None:
    """Whose it is, and until when it is put off, as it is now."""
    if wants_json(json):
        print_json(interrupt.raw)
        return
    triage = (_triage(what, interrupt.raw) for what in ("claimed", "snoozed"))
    console().print(" ".join(filter(None, triage)) or "Claimed by nobody, and not snoozed.", soft_wrap=True)


def _triage(what: str, raw: Mapping[str, Any]) -> str | None:
    by, until = raw.get(f"{what}_by"), raw.get(f"{what}_until")
    return f"{what.capitalize()}{f' by {one_line(by)}' if by else ''} until {until}." if until else None


def _field(name: str, value: Any) -> str | Text:
    if name == "status":
        return status_text(str(value))
    return plain(value) if isinstance(value, str) else exact_json(value, indent=2)


def _age(created_at: datetime | None) -> str:
    if created_at is None:
        return ""
    seconds = max(0, int((datetime.now(UTC) - created_at).total_seconds()))
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if seconds >= size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def _parse(text: str, hint: str = """text needs quotes of its own: '"text"'""") -> Any:
    try:
        return read_json(text)
    except ValueError as error:
        usage_error(f"the answer is not JSON: {error}", hint)


def add_to(root: typer.Typer) -> None:
    root.add_typer(app, name="interrupts")
