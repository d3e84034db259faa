"""Values that stand for themselves in a journal, as most do: copied in a fraction of the time that the codec takes."""

from __future__ import annotations

import math
from typing import Any, Final

TAG: Final = "$hitl"
"""The member of an object that names the kind of what it stands for."""
INT_LIMIT: Final = 1 << 63
# Deeper values would overflow the stack of some reader on the way; nothing sensible comes near it.
MAX_DEPTH: Final = 100

NOT_PLAIN: Final = object()
"""Instead of a copy: the value does not stand for itself, or may not be stored at all. The codec knows."""


def copy_plain(value: Any) -> Any:
    """A copy: both what the codec encodes the value as, and what it decodes that to. Or ``NOT_PLAIN``."""
    copied = _copy([value], -1)
    return copied if copied is NOT_PLAIN else copied[0]


def _copy(value: Any, depth: int) -> Any:
    """Of a list or a dict. What holds nothing is looked at in here: a call for each would take longer than the rest."""
    if depth > MAX_DEPTH:
        return NOT_PLAIN
    kind = type(value)
    items: Any
    copied: Any
    if kind is dict:
        if TAG in value:
            return NOT_PLAIN
        items, copied = value.items(), {}
    elif kind is list:
        items, copied = enumerate(value), [None] * len(value)
    else:
        return NOT_PLAIN
    for key, item in items:
        if kind is dict and not (type(key) is str and key.isascii()):
            return NOT_PLAIN
        is_a, kept = type(item), item
        if item is None or is_a is bool:
            is_plain = True
        elif is_a is str:
            is_plain = item.isascii() or _is_text(item)
        elif is_a is int:
            is_plain = -INT_LIMIT <= item < INT_LIMIT
        elif is_a is float:
            is_plain = math.isfinite(item)
        else:
            kept = _copy(item, depth + 1)
            is_plain = kept is not NOT_PLAIN
        if not is_plain:
            return NOT_PLAIN
        copied[key] = kept
    return copied


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
