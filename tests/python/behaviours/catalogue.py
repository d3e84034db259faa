"""The behaviours by number, and the mark that a test of one carries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import pytest

from tests.python.behaviours.faces.every import FACES_HERE

Test = TypeVar("Test", bound=Callable[..., Any])

BEHAVIOURS: Final[dict[int, str]] = {
    1: "A gated tool has no effect before approval and exactly one after",
    2: "Rejected: no effect, and the model sees the exact message",
    3: "An ungated sibling runs once over pause and resume",
    4: "Two gated calls, one answered: that one runs, the other stays pending",
    5: "Approvals and rejections mixed in one batch",
    6: "Going on without a decision: the same interrupts, the same ids",
    7: "Edits are checked, the tool sees the edited arguments, the model is told",
    8: "Unknown id, wrong kind, duplicate id: a typed error, nothing runs, nothing changes",
    9: '`False`, `0`, `""` and `null` are answers',
    10: "A new message while something is pending is refused",
    11: "An answer when nothing is pending is an error",
    12: "Sticky decisions: later calls too, also once serialised; never another agent's or another tool's",
    13: "A call id used again with other arguments under an approval: nothing runs on it",
    14: "Replaying a finished call has no second effect",
    15: "An approved tool that failed is not run again by a second resume",
    16: "Nested agents: the root shows the inner agent's interrupt, and goes on after a restart",
    17: "A policy is asked once, may be async, sees the arguments, and fails closed",
    18: "Serialise, go on in a new process; what a newer version wrote is refused clearly",
    19: "Step limit and usage carry over a pause",
    20: "No message twice after a resume",
    21: "Streaming pauses and resumes alike",
    22: "Several interrupts in turn in one tool",
    23: "Metadata to the approver, and data back to the tool",
    24: "A store that fails to save is visible",
    25: "A context that cannot be serialised is an error at the pause",
    26: "The same question in two turns has two ids",
    27: "What is cancelled while it is pending is withdrawn",
}


@dataclass(frozen=True)
class Tested:
    """A test, and what it is about."""

    number: int
    part: str | None
    name: str
    module: str


SUITE: Final[list[Tested]] = []
"""Every marked test of the modules that were imported."""


def behaviour(number: int, part: str | None = None) -> Callable[[Test], Test]:
    """Marks a test of a behaviour, or of a part of it, and gives it every `face` whose words can express that.

    The others say why not, in their `cannot`; docs/behaviours.md lists that.
    """
    if number not in BEHAVIOURS:
        raise ValueError(f"no behaviour has the number {number}")

    def mark(test: Test) -> Test:
        SUITE.append(Tested(number, part, test.__name__, test.__module__))
        faces = [face for face in FACES_HERE if face.reason(number, part) is None]
        marked: Test = pytest.mark.parametrize("face", faces, indirect=True, ids=[face.name for face in faces])(test)
        return marked

    return mark
