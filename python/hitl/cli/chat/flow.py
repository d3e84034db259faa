"""Text that comes in pieces, broken between words where a line of the terminal ends."""

from __future__ import annotations

import re

from prompt_toolkit.utils import get_cwidth

_PARTS = re.compile(r"\n|[^\S\n]+|\S+")


class Flow:
    """One stretch of text from the start of a line on.

    Each piece is shown as it comes, so the beginning of a word may stand at the end of a line that has no room for its
    rest: then it is taken back, and goes on the next line.
    """

    def __init__(self) -> None:
        self._column = 0
        self._word = ""

    def take(self, text: str, columns: int) -> str:
        """What to write for the next piece on a terminal that is so wide."""
        return "".join(self._part(part, columns) for part in _PARTS.findall(text))

    def _part(self, part: str, columns: int) -> str:
        if part == "\n":
            self._column, self._word = 0, ""
            return part
        if part.isspace():
            part = part.expandtabs(1)[: max(0, columns - 1 - self._column)]
            self._column, self._word = self._column + len(part), ""
            return part
        begun, width = get_cwidth(self._word), get_cwidth(part)
        is_too_long = begun + width >= columns
        # The last column stays free: what a terminal does after a character there differs.
        if self._column + width < columns or self._column == begun or is_too_long:
            self._column = (self._column + width) % columns
            self._word += part
            return part
        word, self._word = self._word, self._word + part
        self._column = begun + width
        return "\b" * begun + " " * begun + "\n" + word + part
