"""The process of `hitl replay-check`: `python -m hitl.cli.replaying MODULE:ATTR STORE LIMIT PATIENCE STRICTNESS FORM`.

STRICTNESS is `strict` or `lenient`, FORM is `json` or `table`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from rich.text import Text

from hitl.cli import exit_codes
from hitl.cli.output import Failure
from hitl.cli.stored import stored_sessions
from hitl.cli.streams import unwritable
from hitl.cli.tables import console, print_failure, print_table
from hitl.cli.text import one_line, plain
from hitl.driver.code_version import code_version
from hitl.driver.replay_check import OpenTurn, Verdict, check_turns
from hitl.errors import AgentLoadError
from hitl.worker import isolation
from hitl.worker.loading import load_agent
from hitl.worker.loops import new_loop, run

if TYPE_CHECKING:
    from hitl._core import StoredSessions
    from hitl.driver.shapes import LoadedAgent

AT_ONCE = 100
"""Sessions that are read at once: a million waiting ones must not need the memory of a million."""

_WIDE = 120
"""Columns of a terminal that has room for two ids in a row."""

_STATUSES = ("interrupted", "running", "error")
_STYLES = {"goes on": "green", "unchecked": "yellow", "breaks": "bold red"}
_FAILED = "before, with what `hitl sessions get` says; under the same code it does so again"
_NOT_REPLAYABLE = "its agent says replay=False: the turn does not survive the end of its worker"


@dataclass(frozen=True)
class WaitingTurn:
    """An open turn, or why no worker with this Python and code would take it (code and message)."""

    turn: OpenTurn
    refusal: tuple[str, str] | None


class Turns:
    """The open turns of one agent, read page by page. `others` counts those of other agents that were seen."""

    def __init__(self, sessions: StoredSessions, agent: str, pinned_to: str | None) -> None:
        self.others: Counter[str] = Counter()
        self._sessions = sessions
        self._agent = agent
        self._pinned_to = pinned_to

    def pages(self) -> Iterator[list[WaitingTurn]]:
        for status in _STATUSES:
            cursor: int | None = None
            while True:
                found, others, cursor = self._sessions.open_turns(
                    self._agent, (_python(), self._pinned_to), status, AT_ONCE, cursor
                )
                self.others.update(others)
                has_failed = status == "error"
                yield [WaitingTurn(_open_turn(json.loads(frame), has_failed), refusal) for frame, refusal in found]
                if cursor is None:
                    break


def _python() -> str:
    return ".".join(map(str, sys.version_info[:3]))


def _open_turn(frame: dict[str, Any], has_failed: bool) -> OpenTurn:
    return OpenTurn(frame["session_id"], frame["turn"], frame["message"], frame["state"], frame["journal"], has_failed)


@dataclass
class Counts:
    """How many turns were looked at, and what came of them."""

    checked: int = 0
    broken: int = 0
    unchecked: int = 0
    steps: set[str] = field(default_factory=set)
    """Those whose insides were left out, in turns that are not broken anyway."""

    def add(self, verdicts: list[Verdict]) -> None:
        self.checked += len(verdicts)
        for verdict in verdicts:
            self.broken += verdict.word == "breaks"
            if verdict.word == "unchecked":
                self.unchecked += 1
                self.steps.update(verdict.unchecked)

    def verdict(self) -> str:
        """In a sentence's end: what the turns that were checked would do."""
        whole = self.checked - self.unchecked
        said = [f"{self.broken:,} would break"] if self.broken else ["all would go on"] if whole else []
        if self.unchecked:
            said.append(f"{self.unchecked:,} not checked inside {one_line(', '.join(sorted(self.steps)))}")
        return ", ".join(said)


class Checker:
    """Gives verdicts on pages of turns, on an event loop like a worker's."""

    def __init__(self, agent: LoadedAgent, code: str, patience: float) -> None:
        self._agent = agent
        self._code = code
        self._patience = patience
        self._loop = new_loop()

    def check(self, page: list[WaitingTurn]) -> list[Verdict]:
        """One verdict for each turn, in their order."""
        refused = {id(waiting.turn): self._refused(waiting) for waiting in page}
        replayed: list[Verdict] = []

        async def replay() -> None:
            turns = [waiting.turn for waiting in page if refused[id(waiting.turn)] is None]
            replayed.extend(await check_turns(self._agent, turns, code=self._code, patience=self._patience))

        # What the agent prints between its steps is not this command's output.
        with redirect_stdout(sys.stderr):
            run(self._loop, replay())
        verdicts = iter(replayed)
        return [refused[id(waiting.turn)] or next(verdicts) for waiting in page]

    def _refused(self, waiting: WaitingTurn) -> Verdict | None:
        turn = waiting.turn
        if not self._agent.options.replay:
            return Verdict(turn.session_id, turn.turn_id, _NOT_REPLAYABLE, "not_replayable", has_failed=turn.has_failed)
        if waiting.refusal is not None:
            code, message = waiting.refusal
            return Verdict(turn.session_id, turn.turn_id, message, code, has_failed=turn.has_failed)
        return None


class JsonReport:
    """One JSON document, written as it comes."""

    def __init__(self, agent: str, code: str) -> None:
        head = json.dumps({"agent": agent, "code": code, "python": _python()})
        sys.stdout.write(f'{head[:-1]}, "turns": [')
        self._separator = "\n"

    def add(self, verdicts: list[Verdict]) -> None:
        for verdict in verdicts:
            entry = {
                "session_id": verdict.session_id,
                "turn_id": verdict.turn_id,
                "verdict": verdict.word,
                "error": verdict.error,
                "error_code": verdict.code,
                "warnings": verdict.warnings,
                "unchecked": verdict.unchecked,
                "has_failed": verdict.has_failed,
            }
            sys.stdout.write(self._separator + json.dumps(entry))
            self._separator = ",\n"
        sys.stdout.flush()

    def end(self, counts: Counts, others: Counter[str]) -> None:
        numbers = {"checked": counts.checked, "broken": counts.broken, "unchecked": counts.unchecked}
        tail = json.dumps(numbers | {"other_agents": dict(others)})
        sys.stdout.write(f"\n], {tail[1:]}\n")


class TableReport:
    """Tables, and below each one what there is to say about its turns."""

    def __init__(self, agent: str, code: str) -> None:
        self._agent = agent
        console().print(Text(f"{one_line(agent)}, code version {one_line(code)}, Python {_python()}", style="dim"))

    def add(self, verdicts: list[Verdict]) -> None:
        if not verdicts:
            return
        columns = ["SESSION", "VERDICT", "WARNINGS", "UNCHECKED"]
        # Ids must come out whole; a session has one open turn, so that its own does where there is little room.
        is_wide = console().width >= _WIDE
        rows = [_row(verdict)[: None if is_wide else len(columns)] for verdict in verdicts]
        print_table([*columns, "TURN"] if is_wide else columns, rows, empty="")
        for verdict in verdicts:
            _explain(verdict)

    def end(self, counts: Counts, others: Counter[str]) -> None:
        out = console()
        if counts.checked:
            style = "bold red" if counts.broken else "yellow" if counts.unchecked else "green"
            out.print(Text(f"{_turns(counts.checked)} checked: {counts.verdict()}.", style=style))
        else:
            out.print(Text(f"No turn of {one_line(self._agent)} is open."))
        for agent, count in sorted(others.items()):
            out.print(Text(f"Not checked: {_turns(count)} of {one_line(agent)}.", style="yellow"))


def _row(verdict: Verdict) -> list[str | Text]:
    counts = str(len(verdict.warnings)), str(len(verdict.unchecked))
    return [verdict.session_id, Text(verdict.word, _STYLES[verdict.word]), *counts, verdict.turn_id]


def _turns(count: int) -> str:
    return f"{count:,} open turn" if count == 1 else f"{count:,} open turns"


def _explain(verdict: Verdict) -> None:
    said = [
        *([] if verdict.error is None else [(verdict.code or "error", verdict.error)]),
        *(("warning", warning) for warning in verdict.warnings),
        *(("unchecked", f"{step} would run again from its top") for step in verdict.unchecked),
        *([("failed", _FAILED)] if verdict.word == "unchecked" and verdict.has_failed else []),
    ]
    if not said:
        return
    out = console()
    out.print(Text(verdict.session_id, style="bold"))
    for label, text in said:
        style = "yellow" if label in ("warning", "unchecked", "failed") else "red"
        out.print(Text.assemble((f"{label}: ", style), plain(text)), soft_wrap=True)
    out.print()


def check(agent: str, store: str, limit: int, patience: float, is_strict: bool, form: str) -> int:
    """Check and report; the exit code. Raises `Failure` and `AgentLoadError`."""
    with stored_sessions(store) as sessions:
        with redirect_stdout(sys.stderr):
            loaded = load_agent(agent)
            code = code_version(loaded, [str(Path.cwd())])
        turns = Turns(sessions, agent, code if loaded.options.pin else None)
        checker = Checker(loaded, code, patience)
        report = JsonReport(agent, code) if form == "json" else TableReport(agent, code)
        counts = Counts()
        for page in turns.pages():
            verdicts = checker.check(page[: limit - counts.checked] if limit else page)
            report.add(verdicts)
            counts.add(verdicts)
            if limit and counts.checked >= limit:
                break
        report.end(counts, turns.others)
    left_open = is_strict and (counts.unchecked or turns.others)
    return exit_codes.RUNTIME if counts.broken or left_open else exit_codes.OK


def main(arguments: list[str]) -> NoReturn:
    """Ends the process itself: threads that an agent has left must not hold it up."""
    isolation.die_with(None)
    # An event loop like a worker's takes Ctrl-C for the end of some task of the agent.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    agent, store, limit, patience, strictness, form = arguments
    try:
        exit_code = check(agent, store, int(limit), float(patience), strictness == "strict", form)
        sys.stdout.flush()
    except Failure as failure:
        exit_code = _fail(failure)
    except AgentLoadError as error:
        hint = error.hint or "MODULE is imported from the working directory, ATTR is a name in it"
        exit_code = _fail(Failure(str(error), hint, exit_codes.AGENT_IMPORT))
    except OSError as error:
        lost = unwritable(error)
        exit_code = exit_codes.RUNTIME if lost is None else _fail(lost)
    with suppress(OSError):
        sys.stderr.flush()
    os._exit(exit_code)


def _fail(failure: Failure) -> int:
    with suppress(OSError):
        print_failure(failure)
    return failure.exit_code


if __name__ == "__main__":
    main(sys.argv[1:])
