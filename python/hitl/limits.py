"""Limits of a turn that a person may lift: a turn that came to one is suspended, and a retry grants as much again.

The entry of a limit is written when the error that says so leaves the agent, and never where the agent caught it: so a
replay meets the same limits as the run did. Lifted it is once the turn has been taken up again after that entry.
"""

from __future__ import annotations

from typing import Any

from hitl.ports import StepIdentity


class Limits:
    """The limits that a turn came to: in its journal, and in this run of it."""

    def __init__(self, journal: list[dict[str, Any]]) -> None:
        self._recorded: dict[str, int] = {}
        self._retried = 0
        for index, entry in enumerate(journal):
            kind = entry["entry"]
            if kind == "taken":
                self._retried = index
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
