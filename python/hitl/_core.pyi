"""The native core of hitl: the domain's checks, and the server. Internal; use `hitl`."""

from typing import Any, Final, final

__version__: Final[str]
DEBUG_BUILD: Final[bool]
"""Whether the core was compiled without optimisation, as `maturin develop` does: several times slower."""

def check_payload(payload: object, max_bytes: int = 16384) -> str:
    """The compact JSON of a valid interrupt payload.

    Raises `TypeError` for what is no dict, has a `type` that is no string, or is not JSON; `ValueError` for NaN, cycles
    and anything above `max_bytes`.
    """

def to_json(value: object) -> str:
    """The compact JSON of a value; errors as `check_payload`."""

def digest(value: object) -> str:
    """`sha256:<hex>` of a JSON value; the order of members does not matter."""

def check_response_schema(schema: object) -> None:
    """Raises `ValueError` where `schema` is no usable JSON Schema."""

def validate(schema: object, value: object) -> list[dict[str, Any]]:
    """What is wrong with `value` under `schema`: a list of `{"loc", "msg", "type"}`, empty when it is valid."""

def check_questions(arguments: object) -> dict[str, Any]:
    """The interrupt payload for the arguments of `ask_user_question`. Raises `ValueError` that names each wrong field."""

def read_decision(value: object, allowed: list[str]) -> dict[str, Any]:
    """An answer to a tool approval in its one normal form: `{"type": "approve"}` or `{"type": "reject", "reason",
    "message"}`. Raises `ValueError` for anything else, and for what `allowed` does not list."""

def rejection_text(tool_name: str, reason: str | None = None, message: str | None = None) -> str:
    """What the model is told of a rejection."""
