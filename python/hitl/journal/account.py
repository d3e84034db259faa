"""What a turn takes from its journal when it begins: what its models cost, its limits, whether rules stand.

Every model's reply is an entry, whoever asked for it, so the cost is added up from there. A nested agent's reply is
there too when the step that the agent ran in is over and no replay goes into it again.

Limits are what a person may lift: a turn that came to one is suspended, and a retry grants as much again. The entry of
a limit is written when the error that says so leaves the agent, and never where the agent caught it: so a replay meets
the same limits as the run did. Lifted it is once the turn has been taken up again after that entry.

Whether there are standing rules for the calls of a turn is as it was when they were made, also in a replay. That is
decided each time that the turn is taken up, and a change is an entry of its journal. It is for calls that the journal
does not have by then; one that it has went its way, asked about or not, and goes the same way again.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from hitl import _core
from hitl.journal.codec import fingerprint
from hitl.journal.ports import StepIdentity

Usage = dict[str, float]
"""`requests`, and the sums of what `ModelReply.usage` holds; empty for a turn that asked no model."""


def usage_of(journal: Iterable[Mapping[str, Any]]) -> Usage:
    """What the models of a turn with this journal cost so far."""
    total: Usage = {}
    for entry in journal:
        if entry["entry"] == "step" and entry["step"]["kind"] == "model":
            add_usage(total, entry["step"], entry.get("result") or {})
    return total


def add_usage(total: Usage, step: Mapping[str, Any], result: Mapping[str, Any]) -> None:
    """Count a recorded step, where it is a model's reply. `step` and `result` are those of its entry."""
    if step["kind"] != "model" or "value" not in result:
        return
    total["requests"] = total.get("requests", 0) + 1
    reply = result["value"]
    said = reply.get("usage") if isinstance(reply, dict) else None
    # An imported journal may say anything here, and is counted before it is checked: only plain numbers are added.
    for name, value in said.items() if isinstance(said, dict) else ():
        if type(value) in (int, float):
            total[name] = total.get(name, 0) + value


class Limits:
    """The limits that a turn came to: in its journal, and in this run of it."""

    def __init__(self, journal: list[dict[str, Any]]) -> None:
        self._recorded: dict[str, int] = {}
        self._retried = 0
        self._takings: list[int] = []
        for index, entry in enumerate(journal):
            kind = entry["entry"]
            if kind == "taken":
                self._retried = index
                self._takings.append(index)
            elif kind == "step" and entry["step"]["kind"] == "limit":
                self._recorded[entry["step"]["path"]] = index
        self._reached: list[tuple[BaseException, StepIdentity]] = []

    def is_recorded(self, path: str) -> bool:
        """Whether the turn was suspended at this limit."""
        return path in self._recorded

    def is_lifted(self, path: str) -> bool:
        """Whether it has been taken up again since."""
        return self._retried > self._recorded[path]

    def has_been_retried(self, last: int) -> bool:
        """Whether the turn was taken up again after it had been told of entry ``last``, and before the next one."""
        return self._retried > last

    def was_retried_between(self, before: int, last: int) -> bool:
        """Whether the turn was taken up again between two entries."""
        return any(before < taking < last for taking in self._takings)

    def reached(self, error: BaseException, step: StepIdentity) -> None:
        """``error`` is raised because of this limit."""
        self._reached.append((error, step))

    def reason(self, error: BaseException) -> StepIdentity | None:
        """The limit that is not in the journal yet and is why the agent ends with ``error``."""
        while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
        for raised, step in self._reached:
            if raised is error and not self.is_recorded(step["path"]):
                return step
        return None


def fits_step(tool_name: str) -> str:
    """Name of the step that says of a call of another framework's tool that its arguments do not fit, while there were
    rules."""
    return f"{tool_name}.arguments"


_BEGINNINGS = ("start", "taken")
"""Entries that say whether there are rules from there on."""


class RuleChanges:
    """What a journal says about it, as the turn was given it."""

    def __init__(self, journal: list[dict[str, Any]], code: str = "") -> None:
        """``code``: the version at hand."""
        self._made: dict[str, dict[str, Any]] = {}
        """The first that the journal tells of each step, where there was a change: by path."""
        self._entered: set[str] = set()
        """Steps that made steps of their own."""
        self._held: list[bool | None] = []
        """Of each entry, where there was a change: whether there were rules when it was recorded; None of those that
        say so."""
        self._is_by_this_code = True
        if len(journal) == 1:  # most turns by far
            self.has_rules = bool(journal[0].get("policy"))
            return
        # The first entry is the turn's start; a later one that speaks of rules has taken it up.
        said = [entry["policy"] for entry in journal if "policy" in entry]
        self.has_rules = bool(said and said[-1])
        """Whether there are rules now."""
        if len(said) > ("policy" in journal[0]):
            has_rules = False
            for entry in journal:
                if entry["entry"] in _BEGINNINGS:
                    has_rules = bool(entry.get("policy", has_rules))
                    self._is_by_this_code &= entry.get("code") == code
                self._held.append(None if entry["entry"] in _BEGINNINGS else has_rules)
                step = entry.get("step")
                if step is not None:
                    self._made.setdefault(step["path"], step)
                    outer = step["path"].rpartition("/")[0]
                    while outer:
                        self._entered.add(outer)
                        outer = outer.rpartition("/")[0]

    @property
    def may_apply(self) -> bool:
        """Whether ``apply_to`` may be true of any call."""
        return self.has_rules or bool(self._made)

    def were_none(self, last: int, *paths: str) -> bool:
        """Whether a call that no entry tells of, had it no rules, was made while there were none: whose next step would
        be at one of ``paths``, and which a replay comes to after entry ``last``. Under other code it may be a new one.
        """
        if not self._is_by_this_code or any(path in self._made or path in self._entered for path in paths):
            return False
        return next((not held for held in islice(self._held, last + 1, None) if held is not None), False)

    def apply_to(self, tool_name: str, arguments: dict[str, Any], *paths: str) -> bool:
        """Whether a call is put before the rules, whose next step is at one of ``paths``: the first in the journal."""
        known = paths[0] if len(paths) == 1 else next((path for path in self._made if path in paths), "")
        made = self._made.get(known)
        if made is None:
            return self.has_rules and self._entered.isdisjoint(paths)
        if made["kind"] == "policy":
            return made["name"] in (f"{tool_name}.approval_description", fits_step(tool_name))
        if made["kind"] != "interrupt":
            return False
        payload = {"type": "tool_approval", "tool_name": tool_name, "tool_args": arguments}
        asked = json.loads(_core.check_payload(payload, sys.maxsize))
        return bool(made["arguments"].get("payload") == fingerprint(asked))
