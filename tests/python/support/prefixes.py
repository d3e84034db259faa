"""Run an agent, then again from every prefix of its journal: each time it must come to the same end.

A decision that code or a rule made stands in the journal beside its question, written at once: it is never cut off.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from hitl.driver.shapes import as_agent
from hitl.messages import ChatMessage
from tests.python.support.local import PENDING, Answers, Journal, LocalPort, LocalTurn

Effects = list[Any]


@dataclass
class Run:
    """What came of running an agent once."""

    response: ChatMessage
    state: list[ChatMessage]
    port: LocalPort
    effects: Effects = field(default_factory=list)

    @property
    def requests(self) -> list[Any]:
        """What people were asked."""
        return [asked.request for asked in self.port.interrupts]

    @property
    def told(self) -> list[str | None]:
        """What models were told of tool calls."""
        return [message.content for message in self.state if message.role == "tool"]


async def run_all_prefixes(
    make: Callable[[Effects], Any],
    answers: Answers | None,
    *,
    message: str = "go",
    state: list[ChatMessage] | None = None,
    journal_start: dict[str, Any] | None = None,
    setup: Callable[[LocalTurn], None] | None = None,
) -> Run:
    """The first run, once every prefix of its journal has led to the same state, asking and doing nothing twice.

    `make(effects)` makes the agent; its tools note in `effects` what they do. `answers` must say the same for the same
    question, and is not asked again about one that a prefix leaves open. `journal_start`: more members of the first
    entry. `setup` gets each turn before it runs.
    """
    given: dict[str, Any] = {}
    first = await _run(make, answers, message, state, _start(journal_start), setup, given)
    journal = first.port.journal
    for cut in range(1, len(journal)):
        if journal[cut - 1]["entry"] == "ask" and _is_decided_at_once(journal, cut):
            continue
        again = await _run(make, answers, message, state, json.loads(json.dumps(journal[:cut])), setup, dict(given))
        assert again.state == first.state, f"cut at {cut}"
        finished = {entry["step"]["path"] for entry in journal[:cut] if entry["entry"] == "step"}
        paths = [entry["step"]["path"] for entry in again.port.journal if entry["entry"] == "step"]
        assert len(paths) == len(set(paths)), f"cut at {cut}: a step has two results"
        assert _asked(again.port.journal) == _asked(journal), f"cut at {cut}"
        # An effect belongs to a tool step; those that have a result do not happen again.
        done = sum(1 for path in finished if path in _tool_steps(journal))
        assert len(again.effects) <= len(first.effects) - _effects_of(first, done), f"cut at {cut}: {again.effects}"
    return first


def _asked(journal: Journal) -> list[str]:
    """Paths of the questions; where a prefix ends in the middle of a `once` step, one more asks what came of it."""
    questions = [entry["step"] for entry in journal if entry["entry"] == "ask"]
    return sorted(step["path"] for step in questions if step["name"] != "unknown_outcome")


def _start(more: dict[str, Any] | None) -> Journal | None:
    return None if more is None else [{"at": 1, "entry": "start", "code": "code-1", "python": "3.11", **more}]


def _tool_steps(journal: Journal) -> set[str]:
    """Paths of the tool steps that have nothing inside, and so had their effect when they were over."""
    paths = {entry["step"]["path"] for entry in journal if entry["entry"] in ("step", "ask")}
    return {
        entry["step"]["path"]
        for entry in journal
        if entry["entry"] == "step" and entry["step"]["kind"] == "tool" and _is_leaf(entry["step"]["path"], paths)
    }


def _is_leaf(path: str, paths: set[str]) -> bool:
    return not any(other.startswith(f"{path}/") for other in paths)


def _effects_of(run: Run, steps: int) -> int:
    """How many of a run's effects that many tool steps had: one each, where every tool step has one."""
    return steps if len(_tool_steps(run.port.journal)) == len(run.effects) else 0


def _is_decided_at_once(journal: Journal, cut: int) -> bool:
    after = journal[cut]
    return after["entry"] == "answer" and after["interrupt_id"] == journal[cut - 1]["interrupt_id"]


async def _run(
    make: Callable[[Effects], Any],
    answers: Answers | None,
    message: str,
    state: list[ChatMessage] | None,
    journal: Journal | None,
    setup: Callable[[LocalTurn], None] | None,
    given: dict[str, Any],
) -> Run:
    effects: Effects = []
    loaded = as_agent(make(effects))
    local = LocalTurn(agent=loaded.name, journal=journal)
    if setup is not None:
        setup(local)
    for asked in local.port.interrupts:
        asked.give(given[asked.step["path"]])
    _answer_and_note(local.port, answers, given)
    user = ChatMessage.user_message(content=message)
    run: Awaitable[tuple[ChatMessage, list[ChatMessage]]] = local.run(loaded.run, user, list(state or []))
    response, after = await run
    await local.end()
    return Run(response, after, local.port, effects)


def _answer_and_note(port: LocalPort, answers: Answers | None, given: dict[str, Any]) -> None:
    """Answer through `answers`, and note by the question's path what was said."""
    settle = port._answer_with

    def answer_with(asked: Any, value: Any) -> None:
        given[asked.step["path"]] = value
        settle(asked, value)

    def answer(request: Any) -> Any:
        if request["type"] == "unknown_outcome":
            return {"outcome": "not_done"}
        return PENDING if answers is None else answers(request)

    port.answers = answer
    port._answer_with = answer_with  # type: ignore[method-assign]
