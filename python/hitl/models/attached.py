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
    """Whether it is an image of a format that every provider takes. One without bytes none takes."""
    return attachment.usual_type in _IMAGES and attachment.data != ""


def is_pdf(attachment: Attachment) -> bool:
    """Whether it is a PDF, with bytes or elsewhere."""
    return attachment.usual_type == PDF and attachment.data != ""


def read_text(attachment: Attachment) -> str | None:
    """What a file of text says; None of every other one, and where only its address is known."""
    kind = attachment.usual_type
    if not (kind.startswith("text/") or kind in _TEXTS or kind.endswith(_TEXT_SUFFIXES)):
        return None
    data = attachment.to_bytes()
    try:
        return None if data is None else data.decode()
    except UnicodeDecodeError:
        return None


def text_of(attachment: Attachment) -> str:
    """What is said of a file in text, everywhere: what it says, where it is text, else that it is not shown."""
    text = read_text(attachment)
    if text is not None:
        return f"[{attachment.described}]\n{text}"
    if attachment.data == "":
        return f"[attached, and cannot be read: {attachment.described}]"
    return f"[attached, and not shown to you: {_found(attachment)}]"


def outline_of(attachment: Attachment) -> str:
    """What is said of a file to who writes a summary, and is shown none: its text, where it is text, else its name."""
    text = read_text(attachment)
    return f"[attached: {_found(attachment)}]" if text is None else f"[attached: {attachment.described}]\n{text}"


def _found(attachment: Attachment) -> str:
    """Its name and type, and where it is."""
    return f"{attachment.described}, at {attachment.url}" if attachment.url else attachment.described


def in_the_form_of_its_role(message: ChatMessage) -> ChatMessage:
    """The message; one of the system or the assistant, of whom no provider takes files, with what is attached told in
    its text."""
    if message.role in ("user", "tool") or not (attached := message.attached):
        return message
    said = [message.content] if message.content else []
    return replace(message, content="\n\n".join([*said, *map(text_of, attached)]), attachments=None, base64_image=None)
