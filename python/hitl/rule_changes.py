"""Whether there are standing rules for the calls of a turn: as it was when they were made, also in a replay.

That is decided each time that the turn is taken up, and a change is an entry of its journal. It is for calls that the
journal does not have by then; one that it has went its way, asked about or not, and goes the same way again.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from hitl import _core
from hitl.codec import fingerprint


class RuleChanges:
    """What a journal says about it, as the turn was given it."""

    def __init__(self, journal: list[dict[str, Any]]) -> None:
        self._made: dict[str, dict[str, Any]] = {}
        """The first that the journal tells of each step, where there was a change: by path."""
        self._entered: set[str] = set()
        """Steps that made steps of their own."""
        if len(journal) == 1:  # most turns by far
            self.has_rules = bool(journal[0].get("policy"))
            return
        # The first entry is the turn's start; a later one that speaks of rules has taken it up.
        said = [entry["policy"] for entry in journal if "policy" in entry]
        self.has_rules = bool(said and said[-1])
        """Whether there are rules now."""
        if len(said) > ("policy" in journal[0]):
            for entry in journal:
                step = entry.get("step")
                if step is not None:
                    self._made.setdefault(step["path"], step)
                    outer = step["path"].rpartition("/")[0]
                    while outer:
                        self._entered.add(outer)
                        outer = outer.rpartition("/")[0]

    def hold_for(self, path: str, tool_name: str, arguments: dict[str, Any]) -> bool:
        """Whether a call is put before the rules, whose next step is the one at ``path``."""
        made = self._made.get(path)
        if made is None:
            return self.has_rules and path not in self._entered
        if made["kind"] == "policy":
            return bool(made["name"] == f"{tool_name}.approval_description")
        if made["kind"] != "interrupt":
            return False
        payload = {"type": "tool_approval", "tool_name": tool_name, "tool_args": arguments}
        asked = json.loads(_core.check_payload(payload, sys.maxsize))
        return bool(made["arguments"].get("payload") == fingerprint(asked))
