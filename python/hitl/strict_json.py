"""JSON that people and models write, read as everybody else reads it or not at all."""

from __future__ import annotations

import json
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


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


# Made once: json.loads would make a decoder for every call.
_decode = json.JSONDecoder(parse_constant=_refuse_constant).decode
