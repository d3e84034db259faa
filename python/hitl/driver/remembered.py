"""What a session remembers, as a turn was given it, and how much of that is still as it was when the turn ends.

A conversation grows at its end. What stays as it is before that is not said again, however long it is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from hitl.messages import ChatMessage

# Objects of a message that agents may change where they are; attachments are frozen, the rest is text.
_CHANGEABLE = ("tool_calls", "reasoning_details", "user_params")
_write = json.JSONEncoder().encode


class GivenState:
    """The messages of a turn's frame.

    ``given``: as the frame has them.
    """

    def __init__(self, given: list[dict[str, Any]]) -> None:
        self._given = given
        # A message shares its objects with the frame: what they were like is written down before the agent has them.
        self._objects = [_objects_of(message) for message in given]
        self.messages = [ChatMessage.from_dict(message) for message in given]

    def kept(self, state: Sequence[Mapping[str, Any]]) -> int:
        """How many messages of ``state`` are as they were given, from the first on."""
        count = 0
        try:
            for message, given, objects in zip(state, self._given, self._objects, strict=False):
                if message != given or _objects_of(message) != objects:
                    break
                count += 1
        except (TypeError, ValueError, RecursionError):
            pass  # this one has become what is no JSON: whoever sends it says so
        return count


def _objects_of(message: Mapping[str, Any]) -> str | None:
    """The JSON of what can be changed in a message; None where there is nothing, as in most."""
    objects = [message.get(name) for name in _CHANGEABLE]
    return None if objects == [None, None, None] else _write(objects)
