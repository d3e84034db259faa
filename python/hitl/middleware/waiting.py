"""From what a run waits for to `__interrupt__`, and from a resume value back to answers."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from hitl.errors import InvalidAnswer, NothingPending
from hitl.journal.codec import decode
from hitl.middleware.resuming import DecisionInput, ResumeData, read_decision
from hitl.middleware.shapes import ActionRequest, CallValue, InterruptInfo, InterruptValue, ReviewConfig

if TYPE_CHECKING:
    from hitl.middleware.human_in_the_loop import InterruptMode
    from hitl.runs.interrupts import Interrupt
    from hitl.runs.states import RunState

    SchemaOf = Callable[[str], "dict[str, Any] | None"]

_TOOL_APPROVAL: Final = "tool_approval"
_BATCHES: Final = uuid.UUID("2c9f63c4-3c0e-5a55-9d0f-1f1c6a0b7a52")


@dataclass(frozen=True)
class Waiting:
    """One entry of `__interrupt__`, and the interrupts that it stands for: several in a batch."""

    info: InterruptInfo
    interrupts: tuple[Interrupt, ...]

    @property
    def is_approval(self) -> bool:
        """Whether it is answered by decisions, and not by any JSON."""
        return self.interrupts[0].type == _TOOL_APPROVAL

    def answers(self, given: Any, *, batched: bool) -> list[tuple[Interrupt, Any]]:
        """Each interrupt with its answer. `InvalidAnswer` for what holds no decisions, or not one for each call."""
        if not self.is_approval:
            return [(self.interrupts[0], given)]
        if batched or (isinstance(given, Mapping) and "decisions" in given):
            decisions = ResumeData.from_dict(given).one_for_each(len(self.interrupts))
        else:
            decisions = [read_decision(given)]
        return [(one, _answer(one, said)) for one, said in zip(self.interrupts, decisions, strict=True)]


def waiting(state: RunState, mode: InterruptMode, schema_of: SchemaOf, own_name: str) -> list[Waiting]:
    """What the run waits for, tool calls in the order in which the model made them.

    `own_name`: of the agent that was invoked.
    """
    pending = state.interrupts
    calls = _in_call_order([one for one in pending if one.type == _TOOL_APPROVAL], state)
    batches = [tuple(calls)] if mode == "batched" and calls else [(one,) for one in calls]
    shape = InterruptValue if mode == "batched" else CallValue
    entries = [Waiting(_calls_info(batch, schema_of, own_name, shape), batch) for batch in batches]
    entries += [
        Waiting(
            InterruptInfo(one.payload, one.id, one.response_schema, _other(one.agent, own_name), one.metadata), (one,)
        )
        for one in pending
        if one.type != _TOOL_APPROVAL
    ]
    return entries


def read_resume(resume: Any, entries: Sequence[Waiting], mode: InterruptMode) -> list[tuple[str, Any]]:
    """The answers that a `Command` gives, by interrupt id.

    Raises `NothingPending` where nothing waits, `InvalidAnswer` for what cannot be read. An id that does not wait is
    left to the run, which knows whether it was ever asked.
    """
    if not entries:
        raise NothingPending("nothing waits for an answer in this thread")
    batched = mode == "batched"
    by_id = {entry.info.id: entry for entry in entries}
    if isinstance(resume, Mapping) and resume and (resume.keys() <= by_id.keys() or all(map(_is_id, resume))):
        given = {name: by_id.get(name) for name in resume}
        unknown = [(name, resume[name]) for name, entry in given.items() if entry is None]
        known = [
            (interrupt.id, answer)
            for name, entry in given.items()
            if entry is not None
            for interrupt, answer in entry.answers(resume[name], batched=batched)
        ]
        return unknown + known
    return [(interrupt.id, answer) for interrupt, answer in _only(resume, entries).answers(resume, batched=batched)]


def _only(resume: Any, entries: Sequence[Waiting]) -> Waiting:
    """The entry that a resume value without ids is meant for."""
    if len(entries) == 1:
        return entries[0]
    if isinstance(resume, Mapping) and "decisions" in resume:
        batches = [entry for entry in entries if entry.is_approval]
        if len(batches) == 1:
            return batches[0]
    ids = ", ".join(entry.info.id for entry in entries)
    raise InvalidAnswer(f"{len(entries)} interrupts wait: say which by Command(resume={{id: ...}}); ids: {ids}")


def _other(agent: str | None, own_name: str) -> str | None:
    return None if agent == own_name else agent


def _calls_info(
    calls: tuple[Interrupt, ...], schema_of: SchemaOf, own_name: str, shape: type[InterruptValue]
) -> InterruptInfo:
    actions, reviews = [], []
    for one in calls:
        name, call_id = one.tool_name or "", one.tool_call_id or ""
        allowed = list(one.allowed_decisions or ())
        schema = schema_of(name) if "edit" in allowed else None
        asked_by = _other(one.agent, own_name)
        actions.append(ActionRequest(name, one.tool_args or {}, call_id, one.message, asked_by))
        reviews.append(ReviewConfig(name, call_id, allowed, one.message, schema))
    value = shape(actions, reviews)
    if len(calls) == 1:
        return InterruptInfo(value, calls[0].id, calls[0].response_schema)
    # Of these calls and no others: whoever answers a batch that has changed since is told so.
    return InterruptInfo(value, str(uuid.uuid5(_BATCHES, " ".join(one.id for one in calls))))


def _in_call_order(calls: Sequence[Interrupt], state: RunState) -> list[Interrupt]:
    """By the place of the call in its model's reply: which ask arrived first depends on how long policies took."""
    places: dict[str | None, tuple[int, int]] = {}
    for number, entry in enumerate(json.loads(state.to_string())["journal"]):
        for place, call_id in enumerate(_called(entry)):
            places[call_id] = (number, place)
    last = (len(places), 0)
    return sorted(calls, key=lambda one: places.get(one.tool_call_id, last))


def _called(entry: Mapping[str, Any]) -> list[str]:
    """The ids of the calls in a model's reply, where the entry is one."""
    if entry["entry"] != "step" or entry["step"]["kind"] != "model" or "value" not in entry["result"]:
        return []
    reply = decode(entry["result"]["value"])
    return [call["id"] for call in reply["message"].get("tool_calls") or ()]


def _answer(interrupt: Interrupt, decision: DecisionInput) -> dict[str, Any]:
    answer = decision.to_answer()
    if answer.get("name") not in (None, interrupt.tool_name):
        raise InvalidAnswer(f"{interrupt.tool_name}: an edit cannot make it a call of {answer['name']!r}")
    return answer


def _is_id(name: Any) -> bool:
    try:
        return bool(str(uuid.UUID(name)) == name)
    except (ValueError, AttributeError, TypeError):
        return False
