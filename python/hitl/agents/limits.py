"""Where a turn of an agent stops, and a person may let it go on: each retry of the turn grants as much once more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hitl.attachments import Attachment
from hitl.errors import HitlError
from hitl.messages import ChatMessage
from hitl.models.attached import is_pdf, is_shown_image, text_of
from hitl.models.chat_client import ModelReply

_IMAGE_TOKENS = 1500
_PDF_BYTES = 50
"""About how many bytes of a PDF are a token."""


class MaxStepsExceeded(HitlError):
    """The model was asked `max_steps` times and still wanted to call tools. Where nobody catches it the turn is
    suspended, and a retry lets the model be asked that often once more."""

    code = "max_steps_exceeded"


class TokenLimitExceeded(HitlError):
    """The models of a turn took `token_limit` tokens, and one was to be asked once more."""

    code = "token_limit_exceeded"


class InvalidOutput(HitlError, ValueError):
    """The model was told `output_retries` times what is wrong with its final message, and it is still no `output_type`;
    or an output guardrail made it none."""

    code = "invalid_output"


class ReplyCutShort(HitlError):
    """A reply that ended before the model was done: nothing of it was taken for an answer, and none of its tools ran.

    `finish_reason`: `length` for one as long as it may be (see `max_tokens`), `content_filter` for one that its
    provider held back.
    """

    code = "reply_cut_short"

    def __init__(self, message: str, finish_reason: str) -> None:
        super().__init__(message, finish_reason)
        self.finish_reason = finish_reason

    def __str__(self) -> str:
        return str(self.args[0])


PAUSED: Final = "pause_turn"
"""The reason for which a reply ends whose model wants to go on: Anthropic's, whose own tools may take long."""


def cut_short(label: str, reply: ModelReply) -> ReplyCutShort | None:
    """What is wrong with a reply of the agent `label` that is none; None for every other one."""
    if reply.finish_reason == "length":
        text = f"the reply to {label} was cut off at its greatest length\n\nhint: settings={{'max_tokens': ...}}"
    elif reply.finish_reason == "content_filter":
        text = f"the reply to {label} was held back by the content filter of its provider"
    else:
        return None
    return ReplyCutShort(text, reply.finish_reason)


def tokens_of(reply: ModelReply, asked: Sequence[ChatMessage]) -> float:
    """The tokens of a request and its reply: what the provider says, or an estimate where it says nothing, since a
    limit that is never reached would be none."""
    usage = reply.usage
    if "total_tokens" in usage:
        return usage["total_tokens"]
    if "input_tokens" in usage or "output_tokens" in usage:
        return usage.get("input_tokens", 0) + usage.get("output_tokens", 0)
    return estimated_tokens([*asked, reply.message])


def estimated_tokens(messages: Sequence[ChatMessage]) -> int:
    """About how many tokens messages are: a quarter of their characters, what is attached, and a little for each
    message."""
    total = 0
    for message in messages:
        calls = message.tool_calls or []
        written = sum(len(call["function"]["name"]) + len(call["function"]["arguments"]) for call in calls)
        total += 4 + (len(message.content or "") + written) // 4
        if message.attachments or message.base64_image:
            is_shown = message.role in ("user", "tool")
            total += sum(_tokens_of_file(attachment, is_shown) for attachment in message.attached)
    return total


def _tokens_of_file(attachment: Attachment, is_shown: bool) -> int:
    """An estimate: providers count the points of an image, and of a PDF each page as its text and an image. `is_shown`:
    else it is told in text, as every other file is."""
    if is_shown and is_pdf(attachment):
        return max(_IMAGE_TOKENS, len(attachment.data or "") * 3 // 4 // _PDF_BYTES)
    return _IMAGE_TOKENS if is_shown and is_shown_image(attachment) else len(text_of(attachment)) // 4
