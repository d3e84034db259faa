"""What a tool returns, or raises, as a model is told of it: text, and the images and other files in it."""

from __future__ import annotations

import json
from typing import Any

from hitl.attachments import Attachment
from hitl.errors import HitlError
from hitl.journal.error_codec import error_words
from hitl.journal.inner_attachments import attachments_in, with_attachments
from hitl.strict_json import sendable


def error_content(error: Exception | SystemExit) -> str:
    """`{"error": ...}`: our own errors speak for themselves, others with their class."""
    text = error_words(error)
    if not isinstance(error, HitlError):
        text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return json.dumps({"error": text}, ensure_ascii=False)


def content_of(result: Any) -> tuple[str, list[Attachment]]:
    """A tool's result as a model reads it, and what is attached to it.

    Text is as it is, and everything else JSON. Where an attachment was stands its number and name: in text, where the
    result is an attachment, or a list of nothing but text and attachments, else in the JSON, in dataclasses, models of
    pydantic and sets too.
    """
    attached: list[Attachment] = []
    if isinstance(result, Attachment) or (_is_series(result) and any(isinstance(each, Attachment) for each in result)):
        parts = [result] if isinstance(result, Attachment) else result
        return "\n".join(part if isinstance(part, str) else _mark(part, attached) for part in parts), attached
    if isinstance(result, str):
        return result, attached
    text = _json_of(result)
    if inner := attachments_in(result):
        marked = with_attachments(json.loads(text), inner, lambda attachment: _mark(attachment, attached))
        text = _json_of(marked) if attached else text
    return text, attached


def _is_series(result: Any) -> bool:
    return isinstance(result, list | tuple) and all(isinstance(each, str | Attachment) for each in result)


def _mark(attachment: Attachment, attached: list[Attachment]) -> str:
    attached.append(attachment)
    return f"[attachment {len(attached)}: {attachment.described}]"


def _json_of(result: Any) -> str:
    from pydantic_core import to_json, to_jsonable_python  # late: many agents have tools that return text alone

    try:
        return to_json(result, by_alias=True, inf_nan_mode="strings").decode()
    except ValueError:
        pass
    try:  # bytes that are no text, or what only Python knows
        return to_json(result, by_alias=True, inf_nan_mode="strings", bytes_mode="base64", fallback=str).decode()
    except ValueError:  # text that UTF-8 cannot carry
        plain = to_jsonable_python(sendable(result), by_alias=True, bytes_mode="base64", fallback=str)
        return to_json(sendable(plain), inf_nan_mode="strings").decode()
