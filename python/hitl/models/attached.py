"""What the wire formats share about attachments: which of them every provider takes, and what stands for the others."""

from __future__ import annotations

from dataclasses import replace

from hitl.attachments import Attachment
from hitl.messages import ChatMessage

PDF = "application/pdf"

_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_TEXTS = ("application/json", "application/xml", "application/yaml", "application/toml")
_TEXT_SUFFIXES = ("+json", "+xml", "+yaml")


def is_shown_image(attachment: Attachment) -> bool:
    """Whether it is an image of a format that every provider takes."""
    return attachment.media_type in _IMAGES


def text_of(attachment: Attachment) -> str:
    """What is said of a file in text, everywhere: what it says, where it is text, else that it is not shown."""
    kind = attachment.media_type
    is_text = kind.startswith("text/") or kind in _TEXTS or kind.endswith(_TEXT_SUFFIXES)
    data = attachment.to_bytes() if is_text else None
    try:
        text = None if data is None else data.decode()
    except UnicodeDecodeError:
        text = None
    if text is not None:
        return f"[{attachment.described}]\n{text}"
    where = f", at {attachment.url}" if attachment.url else ""
    return f"[attached, and not shown to you: {attachment.described}{where}]"


def in_the_form_of_its_role(message: ChatMessage) -> ChatMessage:
    """The message; one of the system or the assistant, of whom no provider takes files, with what is attached told in
    its text."""
    told = [text_of(attachment) for attachment in message.attached]
    if not told or message.role in ("user", "tool"):
        return message
    said = [message.content] if message.content else []
    return replace(message, content="\n\n".join([*said, *told]), attachments=None, base64_image=None)
