"""Results of tools that cannot be stored as they are.

A tool that has run must not look as if it had failed: a model that reads an error calls it again. So what the codec
does not take is stored as the JSON that pydantic makes of it, which is all that a model would read of it; and where
there is none, the outcome says that the tool did run.
"""

from __future__ import annotations

from typing import Any

from hitl.codec import encode
from hitl.error_codec import encode_error, error_message
from hitl.errors import ResultNotStored


def stored_as_json(name: str, value: Any, why: Exception) -> dict[str, Any]:
    """The outcome of the tool ``name``, which returned a value that the codec refused with ``why``."""
    from pydantic_core import to_jsonable_python

    try:
        plain = to_jsonable_python(value, by_alias=True, inf_nan_mode="strings", fallback=str)
        return {"value": encode(plain, f"result of tool {name!r}")}
    except Exception:  # noqa: BLE001 - serializers and __str__ of anybody's run here; the value was refused before
        return {"error": encode_error(not_stored(name, why))}


def not_stored(name: str, why: Exception) -> ResultNotStored:
    """The error of a tool that ran, and whose result could not be kept."""
    return ResultNotStored(f"the tool {name} ran; its result could not be stored: {error_message(why)}")


def content_of(result: Any) -> str:
    """A tool's result as a model reads it: text as it is, everything else as JSON."""
    if isinstance(result, str):
        return result
    from pydantic_core import to_json

    try:
        return to_json(result, by_alias=True, inf_nan_mode="strings").decode()
    except ValueError:  # bytes that are no text, or what only Python knows
        return to_json(result, by_alias=True, inf_nan_mode="strings", bytes_mode="base64", fallback=str).decode()
