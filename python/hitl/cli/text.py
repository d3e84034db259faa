"""Text from agents, made safe to print.

It may come from a web page a model has read, so it is hostile until shown otherwise: escape sequences could rewrite
what a person is asked to approve, or reach into the clipboard or the window title; bidirectional controls could show
a path in another order than the one that is deleted.
"""

from __future__ import annotations

import json
import re
import unicodedata
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hitl.messages import ChatMessage

# ECMA-48: CSI, the strings (OSC, DCS, SOS, PM, APC) up to their terminator, then the two-character escapes; each in
# its 7-bit and its 8-bit form.
_ESCAPE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]+[0-~]"
    r"|\x1b[0-Z\\^-~]"
)
_UNFINISHED_ESCAPE = re.compile(
    r"(?:(?:\x1b\[|\x9b)[0-?]*[ -/]*|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x9c\x1b]*\x1b?|\x1b[ -/]*)\Z"
)
_LONGEST_HELD = 4096
# Invisible, but prose needs them: emoji, Indic and Arabic scripts. Not in what is approved.
_JOINERS = "\u200c\u200d"
# Default_Ignorable_Code_Point, where it is no control and no format character anyway, and the blank of Braille.
_IGNORABLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u2800\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufff8\U000e0000-\U000e0fff]"
)


def plain(text: str) -> str:
    """`text` without escape sequences and invisible controls; new lines and tabs stay."""
    text = _ESCAPE.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    return "".join(character for character in text if character in _JOINERS or not _is_unsafe(character))


def is_unseen(character: str) -> bool:
    """Whether a character shows nothing, turns text around, or looks like a plain space: in what is approved it counts.

    The rule of `ui/src/shown.tsx`. What this Python's Unicode does not know yet may be any of that.
    """
    if character in "\n\t ":
        return False
    return unicodedata.category(character)[0] in "CZ" or _IGNORABLE.match(character) is not None


def message_text(message: ChatMessage) -> str:
    """What a message says, and a line for each of its files."""
    said = [message.content] if message.content else []
    for attachment in message.attached:
        where = f", at {attachment.url}" if attachment.url else ""
        said.append(f"[attached: {attachment.described}{where}]")
    return plain("\n".join(said))


def one_line(text: str) -> str:
    """`plain`, with new lines and tabs as spaces."""
    return " ".join(plain(text).split())


def exact(text: str) -> str:
    """`text` with everything invisible or deceptive written out (`\\x1b`, `\\u202e`), for what somebody approves."""
    return "".join(_written_out(character) if is_unseen(character) else character for character in text)


def exact_json(value: Any, *, indent: int | None = None) -> str:
    """A value as JSON, readable, with everything invisible or deceptive as JSON escapes."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    return "".join(_json_escape(character) if is_unseen(character) else character for character in text)


class Stream:
    """`plain` for text that arrives in pieces: a sequence that is cut in two is still recognised."""

    def __init__(self) -> None:
        self._held = ""

    def feed(self, piece: str) -> str:
        text = self._held + piece
        unfinished = _UNFINISHED_ESCAPE.search(text)
        cut = len(text) if unfinished is None else unfinished.start()
        if text.endswith("\r"):
            cut = min(cut, len(text) - 1)
        if len(text) - cut > _LONGEST_HELD:
            # Not an escape sequence anybody means: let it out without its control characters.
            cut = len(text)
        self._held = text[cut:]
        return plain(text[:cut])

    def finish(self) -> str:
        """What is left when nothing more comes."""
        held, self._held = self._held, ""
        return plain(held)


def _is_unsafe(character: str) -> bool:
    if character in "\n\t":
        return False
    if character.isascii():
        return not character.isprintable()
    # Cc and Cf: controls and format characters (bidirectional, zero width); Cs: lone surrogates, which do not even
    # encode; Zl and Zp: line breaks that only some terminals break at.
    return unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp")


def _written_out(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else _json_escape(character)


def _json_escape(character: str) -> str:
    return json.dumps(character)[1:-1] if ord(character) != 0x7F else "\\u007f"
