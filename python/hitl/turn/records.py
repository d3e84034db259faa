"""What a turn has recorded: sent through its port, committed or refused some time later."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from hitl.errors import HitlError
from hitl.journal.account import add_usage
from hitl.journal.outcomes import not_stored
from hitl.journal.ports import InterruptRequest, StepIdentity, TurnPort, Wake
from hitl.turn.places import AnyOrder
from hitl.turn.reporting import log_error
from hitl.turn.schedule import OUTSIDE

logger = logging.getLogger("hitl.turn")

Outcome = dict[str, Any]
"""What an asker gets: ``{"value": encoded}``, ``{"error": encoded}``, ``{"answer": json}`` or ``{"expired": true}``."""


class _Call(NamedTuple):
    """A record that is on its way: ``committed(index, at, interrupt_id)``, or ``refused(error)``."""

    committed: Callable[[int, int, str | None], None]
    refused: Callable[[HitlError], None]
    is_work: bool
    number: int
    is_result: bool
    """Whether a replay comes to it when it tells the turn of it, and not when the turn asks."""


class Delivery(NamedTuple):
    """Something to tell the turn: entry ``entry`` of the journal, recorded at ``at`` (ms since 1970)."""

    entry: int
    at: int
    tell: Callable[[], None]


class Records:
    """The records of one turn. What is committed is told to the turn by its order, except what only we need to know."""

    def __init__(self, port: TurnPort, order: AnyOrder) -> None:
        self.port = port
        self.marks: list[Wake] = []
        """Order marks that are not sent yet: they are needed by what comes after them, and go before it."""
        self.unacknowledged = 0
        """Records on their way, questions aside, after which the turn goes on by itself."""
        self._order = order
        self._calls: dict[int, _Call] = {}
        self._paths: dict[str, str] = {}
        self._ids: dict[str, str] = {}
        self._unwanted: set[str] = set()
        """Questions that were withdrawn before their id was known."""
        self._sent_so_far = 0
        self._untold: deque[tuple[int, Callable[[], None]]] = deque()

    # -- told elsewhere -------------------------------------------------------------------------------------------

    def when_past(self, tell: Callable[[], None]) -> None:
        """Call ``tell``, outside of the turn, once a replay only repeats what happens now: when the journal has
        something that comes after it. Where the process is killed before, a replay comes by here as the first that
        tells. May be called in a thread."""
        self._untold.append((self._sent_so_far, tell))

    def tell_past(self, before: int | None = None) -> None:
        """All that was to be told has happened before something that is in the journal now; with ``before``: what had
        when that record was sent."""
        while self._untold and (before is None or self._untold[0][0] < before):
            _, tell = self._untold.popleft()
            try:
                OUTSIDE.copy().run(tell)
            except Exception as error:  # noqa: BLE001 - no mistake of the turn's
                log_error(logger, "what happened in a turn could not be told", error)

    @property
    def is_about_to_tell(self) -> bool:
        """Whether something is to be told that may be past already: a turn that waits may have to leave memory before
        it hears of that, and a replay would not tell it."""
        return bool(self._untold and self._calls)

    @property
    def has_questions(self) -> bool:
        """Whether a person has been asked something that nobody has answered."""
        return bool(self._paths)

    # -- sent -----------------------------------------------------------------------------------------------------

    def send_step(self, step: StepIdentity, outcome: Outcome) -> None:
        """Record the outcome of a step; whoever asked for it is told once it is committed."""
        try:
            self._send_outcome(step, outcome)
        except (TypeError, ValueError) as unsendable:
            ran = step["kind"] == "tool" and "value" in outcome
            self._send_error(step, not_stored(step["name"], unsendable) if ran else unsendable)

    def send_intent(
        self, step: StepIdentity, begin: Callable[[], None], arguments: Mapping[str, Any] | None = None
    ) -> None:
        """Record that a once step begins, then begin it. ``arguments``: of a tool, as they may be shown."""
        self.flush()

        def committed(index: int, at: int, _: str | None) -> None:
            begin()

        try:
            call = self.port.intent(step, arguments)
        except (TypeError, ValueError) as unsendable:
            self._send_error(step, unsendable)
        else:
            self._sent(call, committed, partial(self._send_error, step), is_result=False)

    def send_started(self, step: StepIdentity, begin: Callable[[], None], arguments: Mapping[str, Any] | None) -> None:
        """Tell whoever watches that a tool begins, then begin it. ``arguments``: as they may be shown."""
        try:
            self.port.started(step, arguments)
        except (TypeError, ValueError) as unsendable:
            self._send_error(step, unsendable)
        else:
            begin()

    def send_timer(self, path: str, due: int, fire: Callable[[], None]) -> None:
        """Record that a timer has fired, then let it. ``due``: its deadline, in ms since 1970."""
        self.flush()

        def committed(index: int, at: int, _: str | None) -> None:
            self._order.deliver(index, at, fire)

        self._sent(self.port.timer(path, due), committed, self._order.turn.fail)

    def send_ask(self, step: StepIdentity, interrupt: InterruptRequest) -> None:
        """Ask a person. A refusal is recorded as the outcome of the asking step, as is why it cannot be sent: it may
        come out at the end of a replay, where whoever asked is not there to be raised at."""
        self.flush()
        path = step["path"]

        def committed(index: int, at: int, interrupt_id: str | None) -> None:
            assert interrupt_id is not None
            if (watcher := self._order.turn.watcher) is not None:
                watcher.asked(step, interrupt_id, at)
            if path in self._unwanted:
                self._unwanted.discard(path)
                self.port.withdraw(interrupt_id)
            else:
                self.asked(interrupt_id, path)

        def refused(error: HitlError) -> None:
            self._unwanted.discard(path)
            self._ids.pop(path, None)
            self._send_error(step, error)

        try:
            call = self.port.ask(step, interrupt)
        except (TypeError, ValueError) as unsendable:
            self._send_error(step, unsendable)
        else:
            self._ids[path] = ""
            self._sent(call, committed, refused, is_work=False, is_result=False)

    def withdraw(self, path: str) -> None:
        """Nobody waits for the question of ``path`` any more; nothing happens where there is none."""
        interrupt_id = self._ids.pop(path, None)
        if interrupt_id == "":
            self._unwanted.add(path)
        elif interrupt_id is not None:
            del self._paths[interrupt_id]
            self.port.withdraw(interrupt_id)

    def forget(self, path: str) -> None:
        """The same in a replay, where whatever is left of it is withdrawn at the end."""
        interrupt_id = self._ids.pop(path, None)
        if interrupt_id:
            del self._paths[interrupt_id]

    def flush(self) -> None:
        """Send the order marks."""
        if self.marks:
            marks, self.marks = self.marks, []
            self.port.wakes(marks)

    def _send_outcome(self, step: StepIdentity, outcome: Outcome) -> None:
        self.flush()

        def committed(index: int, at: int, _: str | None) -> None:
            add_usage(self._order.turn.usage, step, outcome)
            if (watcher := self._order.turn.watcher) is not None:
                watcher.recorded(step, outcome, at)
            self._order.give(step["path"], outcome, index, at)

        self._sent(self.port.step(step, outcome), committed, partial(self._send_error, step))

    def _send_error(self, step: StepIdentity, error: BaseException) -> None:
        try:
            self._send_outcome(step, self._order.turn.error_outcome(error))
        except (TypeError, ValueError) as unsendable:
            # The step itself cannot be: whoever waits for it would wait for ever.
            text = f"the {step['kind']} step {step['path']} cannot be recorded: {unsendable}"
            self._order.turn.fail(TypeError(text))

    def _sent(
        self,
        call: int,
        committed: Callable[[int, int, str | None], None],
        refused: Callable[[HitlError], None],
        *,
        is_work: bool = True,
        is_result: bool = True,
    ) -> None:
        self._sent_so_far += 1
        self._calls[call] = _Call(committed, refused, is_work, self._sent_so_far, is_result)
        self.unacknowledged += is_work

    # -- received -------------------------------------------------------------------------------------------------

    def acknowledged(self, call: int, index: int, at: int, interrupt_id: str | None) -> None:
        """A record is committed as entry ``index``."""
        waiting = self._calls.pop(call, None)
        if waiting is not None:
            self.unacknowledged -= waiting.is_work
            if (watcher := self._order.turn.watcher) is not None:
                watcher.went_on(index)
            if self._untold:
                self.tell_past(None if waiting.is_result else waiting.number)
            waiting.committed(index, at, interrupt_id)

    def refused(self, call: int, error: HitlError) -> None:
        """A record was refused: nothing was stored."""
        waiting = self._calls.pop(call, None)
        if waiting is not None:
            self.unacknowledged -= waiting.is_work
            waiting.refused(error)

    def asked(self, interrupt_id: str, path: str) -> None:
        """The question of ``path`` has this id."""
        self._paths[interrupt_id] = path
        self._ids[path] = interrupt_id

    @property
    def is_asking(self) -> bool:
        """Whether somebody is asked, or about to be."""
        return bool(self._ids)

    def settle(self, interrupt_id: str) -> str | None:
        """The path of a question that is settled; None where nobody waits for it."""
        path = self._paths.pop(interrupt_id, None)
        if path is not None:
            del self._ids[path]
        return path
