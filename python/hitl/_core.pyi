"""The native core of hitl: the domain's checks, and the server. Internal; use `hitl`."""

from collections.abc import Awaitable, Mapping
from typing import Any, Final, final

__all__ = [
    "DEBUG_BUILD",
    "Server",
    "__version__",
    "check_payload",
    "check_questions",
    "check_response_schema",
    "digest",
    "init_logging",
    "read_decision",
    "rejection_text",
    "to_json",
    "validate",
]

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
    """The interrupt payload for the arguments of `ask_user_question`; `ValueError` names each wrong field."""

def read_decision(value: object, allowed: list[str]) -> dict[str, Any]:
    """An answer to a tool approval in its one normal form: `{"type": "approve"}` or `{"type": "reject", "reason",
    "message"}`. Raises `ValueError` for anything else, and for what `allowed` does not list."""

def rejection_text(tool_name: str, reason: str | None = None, message: str | None = None) -> str:
    """What the model is told of a rejection."""

def init_logging(level: str, format: str) -> bool:
    """Starts the log of this process: `level` is debug, info, warning or error, `format` human or json. Only the first
    call counts; returns whether this was it."""

@final
class Server:
    """One server: made, started once, stopped once."""

    def __new__(cls, settings: Mapping[str, Any]) -> Server:
        """`settings`: the members of `serve::Config`."""

    def open_channel(self) -> int:
        """Turns will run in a thread of this process: the descriptor of the socket over which it is reached, which is
        the caller's from now on."""

    def start(self) -> None:
        """Returns once it listens; raises `ServeError`."""

    def start_async(self) -> Awaitable[None]:
        """The same as an awaitable."""

    @property
    def url(self) -> str:
        """Where it listens."""

    def stop(self, timeout: float) -> None:
        """Finishes turns at work for at most `timeout` seconds, ends the rest, closes. Twice does nothing."""

    def stop_async(self, timeout: float) -> Awaitable[None]:
        """The same as an awaitable."""

    def wait(self) -> None:
        """Blocks until the server does not serve any more."""
