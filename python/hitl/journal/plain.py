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
    try:
        return _copy([value], -1)[0]
    except _NotPlainError:
        return NOT_PLAIN


class _NotPlainError(Exception):
    """Something in a value does not stand for itself."""


def _copy(value: Any, depth: int) -> Any:
    """Of a list or a dict. What holds nothing is looked at in here: a call for each would take longer than the rest."""
    if depth > MAX_DEPTH:
        raise _NotPlainError
    kind = type(value)
    items: Any
    copied: Any
    if kind is dict:
        if TAG in value:
            raise _NotPlainError
        items, copied = value.items(), {}
    elif kind is list:
        items, copied = enumerate(value), [None] * len(value)
    else:
        raise _NotPlainError
    for key, item in items:
        if kind is dict and not (type(key) is str and key.isascii()):
            raise _NotPlainError
        is_a = type(item)
        if is_a is str:
            if not item.isascii():
                _check_text(item)
            copied[key] = item
        elif item is None or is_a is bool:
            copied[key] = item
        elif is_a is int:
            if not -INT_LIMIT <= item < INT_LIMIT:
                raise _NotPlainError
            copied[key] = item
        elif is_a is float:
            if not math.isfinite(item):
                raise _NotPlainError
            copied[key] = item
        else:
            copied[key] = _copy(item, depth + 1)
    return copied


def _check_text(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise _NotPlainError from None
