"""What a model of any framework said, as the value of its step: readable by whoever knows our messages, and whole."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hitl.messages import ChatMessage
from hitl.strict_json import sendable


@dataclass(frozen=True)
class RecordedReply:
    """One reply. The journal's readers take the first three, as of our own models; the framework gets the last back."""

    message: ChatMessage
    usage: dict[str, float] = field(default_factory=dict)
    """By the names of ``ModelReply.usage``."""
    finish_reason: str | None = None
    native: Any = None
    """The reply in the framework's own wire form: JSON."""

    def to_json(self) -> dict[str, Any]:
        """The value of the step, with U+FFFD for each half of a character that a model has written: no message, and no
        question to a person, could carry it."""
        return {
            "message": sendable(self.message.to_dict()),
            "usage": self.usage,
            "finish_reason": self.finish_reason,
            "native": sendable(self.native),
        }
