"""What to say of a type that pydantic makes no JSON Schema of."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic.errors import PydanticUserError

_HINTS = {
    # Before Python 3.12 one of `typing` does not tell which of its members may be missing.
    "typed-dict-version": "before Python 3.12 write: from typing_extensions import TypedDict",
}
"""By pydantic's code of the error."""


def why_not(error: PydanticUserError) -> tuple[str, str | None]:
    """What is wrong, on one line, and what to do about it where that is known."""
    # What pydantic advises then is of its own models' configuration, which nobody here has.
    reason = str(error).splitlines()[0].partition(". Set `arbitrary_types_allowed=True`")[0]
    return reason, _HINTS.get(error.code or "")
