"""What the chat prints. Everything an agent wrote goes through `hitl.cli.text` here and nowhere else."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from hitl.cli.chat.expected import expected
from hitl.cli.chat.flow import Flow
from hitl.cli.connection import DEFAULT_URL, retry_command
from hitl.cli.tables import console
from hitl.cli.text import Stream, exact, exact_json, message_text, one_line, plain

if TYPE_CHECKING:
    from hitl.client import Event, Interrupt, Session
    from hitl.messages import ChatMessage


class Screen:
    """The terminal, written from top to bottom. Streamed text and whole lines take turns on it."""

    def __init__(self) -> None:
        self._out = console()
        self._reply = Reply()
        self._flow = Flow()
        self._url = DEFAULT_URL
        # What the agent said last in the turn that somebody came to, while nothing has followed it.
        self._recalled = ""

    def greet(self) -> None:
        self._line(Text("Ctrl-D leaves, the session stays.", style="dim"))

    def name_session(self, url: str, session: Session) -> None:
        self._url = url
        self._line(Text(f"Session {one_line(session.session_id)} at {url}", style="dim"))

    def recall(self, messages: Sequence[ChatMessage], *, in_turn: bool) -> None:
        """What was said last, for somebody who comes to a session that there is; the very last of it in full.

        in_turn: whether the last of it was said in a turn that was not over when they came.
        """
        told = [(message, text) for message in messages if message.role != "system" and (text := message_text(message))]
        if len(told) > RECALLED:
            self._line(Text(f"{len(told) - RECALLED} messages before these.", style="dim"))
        if in_turn and told and told[-1][0].role == "assistant":
            self._recalled = told[-1][1]
        last = len(told) - 1
        for position, (message, text) in list(enumerate(told))[-RECALLED:]:
            if message.role == "tool":
                self._line(Text(f"{one_line(message.name or 'A tool')}: {short(one_line(text))}", style="dim"))
                continue
            said = text if position == last else short(text, LONG)
            self._line(Text.assemble(("User: ", "dim"), said) if message.role == "user" else Text(said))

    def delta(self, event: Event) -> None:
        """Print a piece of the message that is being written."""
        text = self._reply.take(event)
        if text:
            self._out.file.write(self._flow.take(text, self._out.width))
            self._out.file.flush()

    def tool_started(self, event: Event) -> None:
        """A line for a tool that is at work."""
        self._recalled = ""
        self._line(Text(f"{tool_call_text(event)} ...", style="dim"))

    def tool_finished(self, event: Event) -> None:
        """A line for what came of it: the beginning of the result, or the error."""
        self._recalled = ""
        name = one_line(str(event.tool_name))
        error = event.data.get("error")
        if error is not None:
            self._line(Text.assemble((f"{name} failed", "red"), (f": {short(one_line(str(error)))}", "dim")))
        else:
            self._line(Text(f"{name}: {short(exact_json(event.data.get('result')))}", style="dim"))

    def end_turn(self, session: Session) -> None:
        """Print what the streamed text lacks: the rest of the response, or the error."""
        if session.status == "idle" and session.response is not None:
            self._finish_reply(message_text(session.response))
        else:
            self._break_line()
        if session.status == "error":
            self._line(Text.assemble(("error", "bold red"), ": ", plain(session.error or "unknown")))
            if session.can_be_retried:
                self._way_on(session.session_id)
        self._reply, self._recalled = Reply(), ""

    def interrupt(self, interrupt: Interrupt, position: int, count: int) -> None:
        """Show what is asked. Questions show themselves in their prompts, so only their number is printed."""
        number = f"{position} of {count}" if count > 1 else ""
        if interrupt.type == "tool_approval":
            self._line(approval_panel(interrupt, number))
        elif number:
            self._line(Text(f"Question {number}" if interrupt.type == "user_input" else f"Interrupt {number}", "bold"))

    def custom(self, interrupt: Interrupt, *, has_menu: bool = False) -> None:
        """Show an interrupt of a type that only its agent knows; has_menu: what it allows is shown by that."""
        self._line(custom_panel(interrupt, has_menu=has_menu))

    def answered(self, what: str, answer: str) -> None:
        self._recalled = ""
        self._line(Text.assemble(("> ", "cyan"), (f"{one_line(what)}: ", "dim"), one_line(answer)))

    def note(self, text: str, style: str = "yellow") -> None:
        self._line(Text(text, style=style))

    def way_back(self, url: str, session_id: str) -> None:
        command = f"hitl chat {shlex.quote(url)} --session {shlex.quote(one_line(session_id))}"
        self._line(Text("Come back with:"))
        # On a line of its own and unwrapped, so that it can be copied.
        self._out.print(Text(f"  {command}", style="bold"), soft_wrap=True)

    def _way_on(self, session_id: str) -> None:
        self._line(Text("The turn can be taken up again where it stood; a new message abandons it:"))
        self._out.print(Text(f"  {retry_command(session_id, self._url)}", style="bold"), soft_wrap=True)

    def _finish_reply(self, whole: str) -> None:
        shown = self._reply.shown
        if shown and whole.startswith(shown):
            self._out.file.write(self._flow.take(whole[len(shown) :], self._out.width))
            self._break_line(whole)
        elif shown.strip() != whole.strip():
            # Nothing was streamed, or something else than the agent then answered with.
            self._break_line()
            # The turn may have come to its end just when what it had said so far was read.
            if whole and (shown or whole != self._recalled):
                self._line(Text(whole))
        else:
            self._break_line()

    def _line(self, renderable: RenderableType) -> None:
        self._break_line()
        self._out.print(renderable)

    def _break_line(self, shown: str | None = None) -> None:
        text = self._reply.shown if shown is None else shown
        if text and not text.endswith("\n"):
            self._out.file.write("\n")
        self._out.file.flush()
        self._reply.close_line()
        self._flow = Flow()


class Reply:
    """The text of the model's message as far as it has been streamed.

    shown: what of the current step's message is on the screen.
    """

    def __init__(self) -> None:
        self.shown = ""
        self._step: str | None = None
        self._attempt = 0
        self._stream = Stream()

    def take(self, event: Event) -> str:
        """The text to print for one `message.delta`: safe, and on a new line where another message begins."""
        delta = event.data.get("delta")
        content = delta.get("content") if isinstance(delta, Mapping) else None
        if not isinstance(content, str):
            return ""
        before = ""
        step, attempt = str(event.data.get("step_id")), int(event.data.get("attempt") or 0)
        if step != self._step or attempt > self._attempt:
            # A step that is run again says everything again, and a later step says something new.
            before = "\n" if self.shown and not self.shown.endswith("\n") else ""
            self._step, self._attempt, self.shown, self._stream = step, attempt, "", Stream()
        elif attempt < self._attempt:
            return ""
        text = self._stream.feed(content)
        self.shown += text
        return before + text

    def close_line(self) -> None:
        """Other lines follow on the screen; what comes next of this message starts a new one."""
        self.shown = ""


SHORT = 100
"""Characters of arguments or a result that a line has: it only tells what happens, and nobody decides by it."""


RECALLED = 8
"""Messages that somebody is shown who comes to a session."""

LONG = 500
"""Characters of each of these, but for the last, which is what they go on from."""


def short(text: str, most: int = SHORT) -> str:
    return text if len(text) <= most else f"{text[:most]}..."


def tool_call_text(event: Event) -> str:
    """A call in one line, its arguments as far as there is room."""
    arguments = event.data.get("args")
    if isinstance(arguments, Mapping):
        shown = ", ".join(f"{one_line(str(name))}={exact_json(value)}" for name, value in arguments.items())
    else:
        shown = "" if arguments is None else one_line(str(arguments))
    return f"{one_line(str(event.tool_name))}({short(shown)})"


def approval_panel(interrupt: Interrupt, number: str) -> Panel:
    """A tool call as it would run: its name, and every argument in full."""
    tool = exact(str(interrupt.tool_name)).replace("\n", "\\n")
    parts: list[RenderableType] = [Text(tool, style="bold"), arguments_table(interrupt.payload.get("tool_args"))]
    if interrupt.message:
        parts.insert(0, Text(plain(interrupt.message)))
    if interrupt.rule_failed:
        warning = f"A rule could not tell about this call: {one_line(interrupt.rule_failed)}"
        parts.append(Text(warning, style="bold red"))
    if interrupt.tool_source:
        parts.append(Text(f"the tool is from {one_line(interrupt.tool_source)}"))
    if interrupt.agent:
        parts.append(Text(f"asked by {one_line(interrupt.agent)}", style="dim"))
    title = Text(f"Approve this tool call? {number}".rstrip(), style="bold yellow")
    return Panel(Group(*parts), title=title, title_align="left", border_style="yellow", box=box.ROUNDED)


def arguments_table(arguments: Any) -> RenderableType:
    """Arguments one to a line. Nothing is cut: what is approved is what runs."""
    if not isinstance(arguments, Mapping):
        return Text(exact_json(arguments))
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="cyan", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in arguments.items():
        grid.add_row(Text(exact_json(str(name))[1:-1]), Text(argument_text(value)))
    return grid


def argument_text(value: Any) -> str:
    """A value as JSON; text of several lines as these lines, which is how a person can read a file's content."""
    if isinstance(value, str) and "\n" in value:
        return exact(value)
    return exact_json(value, indent=2 if isinstance(value, dict | list) and len(exact_json(value)) > 60 else None)


def custom_panel(interrupt: Interrupt, *, has_menu: bool = False) -> Panel:
    parts: list[RenderableType] = []
    prompt = interrupt.message or interrupt.payload.get("prompt")
    said = {"type": one_line(interrupt.type)}
    if isinstance(prompt, str):
        parts.append(Text(plain(prompt), style="bold"))
        said["prompt"] = plain(prompt)  # what is not quite as it was written stands below as well
    rest = {name: value for name, value in interrupt.payload.items() if said.get(name) != value}
    if rest or not parts:
        parts.append(Text(exact_json(rest or interrupt.payload, indent=2)))
    if interrupt.response_schema is not None and not has_menu:
        parts.append(_answer_asked_for(interrupt.response_schema))
    title = Text(f"The agent asks ({one_line(interrupt.type)})", style="bold yellow")
    return Panel(Group(*parts), title=title, title_align="left", border_style="yellow", box=box.ROUNDED)


def _answer_asked_for(schema: Any) -> RenderableType:
    """What the answer has to be: in words where there are some for it, else the schema."""
    asked_for = expected(schema)
    if asked_for is None:
        return Text(f"The answer must be valid against:\n{exact_json(schema, indent=2)}", style="dim")
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for place, what in asked_for.fields:
        grid.add_row(Text(f"  {one_line(place)}", style="cyan"), Text(plain(what), style="dim"))
    return Group(Text(f"The answer is {plain(str(asked_for))}", style="dim"), grid)
