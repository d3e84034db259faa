"""What a function's docstring says of its tool and of each parameter."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple


class DocString(NamedTuple):
    """What a docstring says, in the form a model is told it."""

    description: str
    parameters: Mapping[str, str]


def read_docstring(function: Callable[..., Any]) -> DocString:
    """Summary, body and parameter texts of a Google, NumPy, Sphinx or Epydoc docstring."""
    text = inspect.getdoc(function)
    if not text:
        return DocString("", {})
    from docstring_parser import ParseError, parse

    try:
        parsed = parse(text)
    except ParseError:
        return DocString(text, {})
    description = parsed.description or ""
    return DocString(
        description.strip(),
        {item.arg_name: " ".join(item.description.split()) for item in parsed.params if item.description},
    )
