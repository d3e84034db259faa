"""LangChain's agents: their tests decide themselves, by resuming a graph from a saver of their own.

So here a node that asks what its test has not answered stops, as LangGraph has it; that it did is its outcome. When the
test resumes the graph, what it says is asked and answered in the turn.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Iterator
from typing import Any

from langgraph._internal._constants import CONF, CONFIG_KEY_CHECKPOINT_NS, CONFIG_KEY_SCRATCHPAD
from langgraph.errors import GraphInterrupt
from langgraph.types import Interrupt, _interrupt_id

from hitl.ext.langgraph import asking, hooks, nodes, serving, tools
from hitl.ext.langgraph.wire import from_wire, to_wire
from hitl.turn.places import place_var

_LEFT = "left_open"

_until_answered = nodes.until_answered
_with_answers = nodes._with_answers
_answer_of_turn = asking.answer
_Body = nodes._Body
_run_task = nodes.run_task

_decisions: dict[str | None, Any] = {}
"""What the test says, by id of the call; None: to a question."""

_scratchpad: contextvars.ContextVar[Any] = contextvars.ContextVar("inturns_scratchpad")
"""That of the node that runs, as the test has resumed it."""


class LeftOpen(Exception):
    """The test has not answered yet."""


class LeftOpenBody(_Body):
    """Runs a task until it asks what the test has not answered."""

    async def __call__(self) -> dict[str, Any]:
        try:
            return await super().__call__()
        except LeftOpen as left:
            asked, number = left.args
            members = {"value": asked.value, "response_schema": asked.response_schema}
            return {"writes": [], _LEFT: {"number": number, "interrupt": to_wire(members)}}


class _Left(Exception):
    """What a node that was left open has come to."""


def outcome(value: Any) -> Any:
    """What a step has come to, once a turn was told so."""
    if isinstance(value, dict) and _LEFT in value:
        raise _Left(value[_LEFT])
    return value


async def _task_run(run: Any, task: Any, *rest: Any) -> Any:
    try:
        return await _run_task(run, task, *rest)
    except _Left as left:
        # By the id that it has in this run: LangGraph's are random.
        known = left.args[0]
        id_ = _interrupt_id(task.config[CONF][CONFIG_KEY_CHECKPOINT_NS], known["number"])
        raise GraphInterrupt([Interrupt(id=id_, **from_wire(known["interrupt"]))]) from left


def is_like(value: Any, error: Exception) -> bool:
    """Whether it is right that what runs beside the turn raises this."""
    return isinstance(value, dict) and _LEFT in value and isinstance(error, GraphInterrupt)


async def _until(turn: Any, run: Any, known: dict[str, Any], state: Any, approvals: Any) -> Any:
    if place_var.get() is None:  # beside a turn: as LangGraph has it
        return await run(known[CONFIG_KEY_SCRATCHPAD])
    return await _until_answered(turn, run, known, state, approvals)


def _noted(scratchpad: Any, answers: list[Any]) -> Any:
    _scratchpad.set(scratchpad)
    return _with_answers(scratchpad, answers)


async def _answer(turn: Any, interrupt: Any, number: int, state: Any, approvals: Any, refusal: str) -> Any:
    scratchpad = _scratchpad.get()
    if number <= len(scratchpad.resume):
        said = scratchpad.resume[number - 1]
    elif (said := scratchpad.get_null_resume(True)) is None:
        raise LeftOpen(interrupt, number - 1)
    if refusal:
        raise RuntimeError(f"the test has said what nobody can say here: {refusal}")
    value = interrupt.value
    asked: dict[str | None, Any]
    if asking._is_batch(value):
        names = [each["name"] for each in value["action_requests"]]
        ids = asking._call_ids(value["action_requests"], state)
        asked = {call: _in_our_words(*each) for call, *each in zip(ids, said["decisions"], names, strict=True)}
    elif asking._is_call(value):
        asked = {value["tool_call_id"]: _in_our_words(said, value["name"])}
    else:
        asked = {None: said}
    if None in asked.values():
        return said  # what our gate has no word for
    _decisions.update(asked)
    return await _answer_of_turn(turn, interrupt, number, state, approvals, refusal)


def _in_our_words(decision: Any, name: str) -> Any:
    kind = decision.get("type") if isinstance(decision, dict) else None
    if kind == "edit" and (action := decision.get("edited_action")):
        return {"type": "edit", "args": action["args"]} if action["name"] == name else None
    if kind in ("reject", "respond") and "message" in decision:
        return {"type": kind, "message": decision["message"]}
    return {"type": kind} if kind in ("approve", "reject") else None


@contextlib.contextmanager
def person() -> Iterator[Callable[[Any], Any]]:
    """Whoever answers what a turn asks: the test."""
    _decisions.clear()
    yield (
        lambda request: (
            {"outcome": "not_done"} if request["type"] == "unknown_outcome" else _decisions[request.get("tool_call_id")]
        )
    )


def install() -> None:
    """Let the adapter ask the test."""
    assert serving is not None
    nodes._Body = LeftOpenBody  # type: ignore[misc]
    nodes.answer = _answer
    hooks.run_task = _task_run
    nodes._with_answers = _noted
    nodes.until_answered = tools.until_answered = _until
