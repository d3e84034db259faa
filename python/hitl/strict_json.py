"""JSON that people and models write, read as everybody else reads it or not at all; and what of it can be written."""

from __future__ import annotations

import json
import re
from typing import Any


def read_json(text: str) -> Any:
    """The value of a JSON text.

    `ValueError` for what is no JSON, a member that is there twice, a number that Python, the server or a browser would
    read as another one, and what is nested too deeply.
    """
    from hitl import _core  # the command line begins without it, and can say that there is none

    try:
        value = _decode(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    _core.check_json(text)
    return value


def sendable(value: Any) -> Any:
    """JSON as UTF-8 can carry it: two halves of a character that stand together are one, and a lone one, as it comes of
    the name of a file that is no UTF-8, is U+FFFD."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, list):
        return [sendable(item) for item in value]
    if isinstance(value, dict):
        return {sendable(name): sendable(item) for name, item in value.items()}
    return value


def sendable_text(text: str) -> str:
    """A JSON text whose value is ``sendable``, also where halves of characters are escapes; what is no JSON is text."""
    if _HALF.search(text) is not None:
        try:
            value = json.loads(text)
        except ValueError:
            value = made = None
        else:
            made = sendable(value)
        if made != value:
            return json.dumps(made, ensure_ascii=False)
    return str(sendable(text))


_HALF = re.compile(r"\\u[dD][89a-fA-F]")


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


# Made once: json.loads would make a decoder for every call.
_decode = json.JSONDecoder(parse_constant=_refuse_constant).decode
