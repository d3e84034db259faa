"""What the wire formats share: a reply that ended too early, and what only its provider can read of a reply.

A reply is made of parts. Text and tool calls have fields of their own in a `ChatMessage`; every other part (thinking
with its signature, encrypted reasoning, a search that the provider ran) is the provider's, which needs it back as it
was and in its place, between the tool calls of one turn above all. Those parts are kept in `reasoning_details`, in one
member that says whose they are: so they are in the journal and in the session's state, and no other provider gets them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from hitl.errors import HitlError
from hitl.messages import ChatMessage, ToolCall


class IncompleteReply(HitlError, ConnectionError):
    """The stream ended before the model did: what arrived is no reply, and half a tool call must not run."""

    code = "incomplete_reply"


@dataclass(frozen=True)
class Part:
    """One part of a reply, or of an assistant's message on its way back to its model."""

    kind: Literal["text", "call", "own"]
    text: str = ""
    """Of a text."""
    call: ToolCall | None = None
    """Of a call."""
    native: Mapping[str, Any] | None = None
    """What the provider alone can read: the whole part where it is its own, marks of a text."""


def keep_parts(provider: str, parts: Sequence[Part]) -> list[Any] | None:
    """What `reasoning_details` has to say of a reply; None where text and calls are all that there is."""
    plain = ("text", "call")
    order = [("own", *plain).index(part.kind) for part in parts]
    if order == sorted(order) and not any(part.kind == "text" and part.native for part in parts):
        own: list[dict[str, Any]] = [{"own": dict(part.native or {})} for part in parts if part.kind == "own"]
        return [{"type": provider, "parts": own}] if own else None
    return [{"type": provider, "parts": [_kept(part) for part in parts]}]


def _kept(part: Part) -> dict[str, Any]:
    if part.kind == "own":
        return {"own": dict(part.native or {})}
    if part.kind == "call":
        return {"call": True}
    return {"text": part.text, **({"native": dict(part.native)} if part.native else {})}


def parts_of(provider: str, message: ChatMessage, *, between: str = "") -> Iterator[Part]:
    """An assistant's message in the order in which the model said it; of what another provider keeps, nothing.

    What people or code have made of text and calls since is what is sent, at the place where the first of it was.
    `between`: what the texts of a reply were put together with.
    """
    text, calls = message.content or "", list(message.tool_calls or [])
    kept = _parts_kept(provider, message)
    texts = [part["text"] for part in kept if "text" in part]
    is_changed = between.join(texts) != text
    for part in kept:
        if "own" in part:
            yield Part("own", native=part["own"])
        elif "text" in part:
            said = text if is_changed else part["text"]
            if said:
                yield Part("text", text=said, native=part.get("native"))
            if is_changed:
                text = ""
        elif calls:
            yield Part("call", call=calls.pop(0))
    if text and not texts:
        yield Part("text", text=text)
    for call in calls:
        yield Part("call", call=call)


def _parts_kept(provider: str, message: ChatMessage) -> list[dict[str, Any]]:
    for detail in message.reasoning_details or []:
        if isinstance(detail, dict) and detail.get("type") == provider:
            return [part for part in detail.get("parts") or [] if isinstance(part, dict)]
    return []


def of_others(detail: Any) -> bool:
    """Whether a member of `reasoning_details` is one that `keep_parts` made, which chat-completions cannot read."""
    return isinstance(detail, dict) and "parts" in detail
