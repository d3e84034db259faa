"""Questions whose answers a type, or a schema, has to take: an answer that it refuses is asked for again.

The server checks an answer against the JSON Schema of its question; what only a validator of the type can tell comes
out when the answer is read, where the type is, and so does that the agent has another schema by now. That answer stays
in the journal as what was said, and the question is asked once more, with the validator's words.

Whether an answer was refused is read from the journal where it tells: by the question that followed, or by what the
turn did after it. So a replay goes the same way although the validator has changed since.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from hitl.errors import InvalidAnswer

if TYPE_CHECKING:
    from hitl.journal.ports import InterruptRequest, StepIdentity
    from hitl.turn.places import AnyTurn, Place

REFUSED: Final = "The answer was refused: "
"""How the message of a question begins that is asked again."""

GUARDRAILS_CHANGED: Final = "Guardrails changed the edited arguments; this is what would run."
TYPES_CHANGED: Final = "The tool reads the edited arguments like this; this is what would run."
"""How the message of an approval begins that is asked again, since what was edited is not what would run."""

Reader = Callable[[Any], Any]
"""Makes of an answer what the agent gets; ``InvalidAnswer`` for one that it does not take."""

# An answer may come in the last moment: what is asked again then is there, and lapses at once.
_SHORTEST_SECONDS = 0.001


_PAST: Final = object()
"""For an answer: the question that it would be of is not in the journal, which goes on after it."""


class TypedQuestions:
    """Those of one turn."""

    def __init__(self, journal: list[dict[str, Any]]) -> None:
        self._journal = journal
        self.readers: dict[str, Reader] = {}
        """By the path of the question."""

    async def ask(
        self,
        turn: AnyTurn,
        place: Place,
        step: StepIdentity,
        request: InterruptRequest,
        read: Reader,
        takes_past: bool,
    ) -> Any:
        """What ``read`` makes of the first answer that it takes. One that it refuses although the journal went on is
        its error, or the answer as it is (``takes_past``)."""
        first, message, deadline = step["path"], request["message"], self._deadline(step, request)
        attempt = 1
        refusal: InvalidAnswer | None = None
        refused: Any = None
        while True:
            self.readers[step["path"]] = read
            answer = await turn.put(place.next_number(), step, request, None if refusal is None else _PAST)
            if answer is _PAST:  # a task beside this one went on
                return _past(refusal, refused, takes_past)
            value: Any = None
            refusal, refused = None, answer
            try:
                value = read(answer)
            except InvalidAnswer as invalid:
                refusal = invalid
            attempt += 1
            step = {**step, "path": f"{first}/?{attempt}", "key": None}
            if step["path"] not in self._recorded:
                if refusal is None:
                    return value
                if place.following_step() in self._recorded:  # the agent took it, or dealt with the error itself
                    return _past(refusal, refused, takes_past)
            words = f"{REFUSED}{refusal}" if refusal is not None else None
            request = {
                **request,
                "message": " ".join(text for text in (words, message) if text) or None,
                "expires_in": None if deadline is None else max(deadline - time.time(), _SHORTEST_SECONDS),
            }

    def _deadline(self, step: StepIdentity, request: InterruptRequest) -> float | None:
        if request["expires_in"] is None:
            return None
        entry = self._recorded.get(step["path"])
        asked_at = time.time() if entry is None else entry["at"] / 1000
        return float(asked_at + request["expires_in"])

    @cached_property
    def _recorded(self) -> dict[str, dict[str, Any]]:
        """The entries of steps and questions, by path: what was there when this run of the turn began."""
        return {entry["step"]["path"]: entry for entry in self._journal if "step" in entry}


def _past(refusal: InvalidAnswer | None, answer: Any, is_taken: bool) -> Any:
    if refusal is not None and not is_taken:
        raise refusal
    return answer
