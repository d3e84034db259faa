"""How a model is asked: the settings of a request, in words that every chat client reads in its own way."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, TypedDict, cast

from hitl.errors import HitlError


class InvalidSettings(HitlError, ValueError):
    """Settings that do not fit the request they are for, such as a `tool_choice` of a tool that the agent has not.
    The model was not asked."""

    code = "invalid_settings"


class ModelSettings(TypedDict, total=False):
    """How a model is asked. What is left out is as the provider, or the client's own `parameters`, has it.

    A client that has no word for a member leaves it out, or raises `InvalidSettings` where that would change what the
    reply means.

    Example:
        agent = ReActAgent(settings={"temperature": 0, "max_tokens": 2_000, "stop": ["END"]})
    """

    temperature: float
    """0 or more; most providers take up to 2."""

    top_p: float
    """From 0 to 1."""

    max_tokens: int
    """The most tokens of a reply, reasoning included: 1 or more. A reply that is cut there is `ReplyCutShort`."""

    stop: str | list[str]
    """Where a reply ends; the text itself is not part of it."""

    tool_choice: Literal["auto", "required", "none"] | str
    """Whether tools may, must or must not be called; any other text is the name of the one tool that must be."""

    parallel_tool_calls: bool
    """Whether one reply may call several tools."""

    reasoning_effort: str
    """How long the model may think, in the provider's words: `minimal`, `low`, `medium`, `high`, ..."""

    extra_body: dict[str, Any]
    """Members of the request's body as the provider spells them, JSON; they win over all others."""


TOOL_CHOICES: Final = ("auto", "required", "none")
"""What `tool_choice` may be besides the name of a tool."""

_OWN_MEMBERS: Final = ("model", "messages", "input", "instructions", "system", "tools", "stream")
"""What the body of a request has from elsewhere: changed here, the journal would say something else than was sent."""


def check_settings(owner: str, given: object) -> ModelSettings:
    """A copy of what `given` says, `None` being nothing. TypeError for what is no dict, an unknown member and a wrong
    type, ValueError for a value out of its range; `owner` is whose settings they are, as the errors call it."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise TypeError(f"{owner}: settings must be a dict of ModelSettings, got {type(given).__name__}")
    settings: dict[str, Any] = {}
    for name, value in given.items():
        check = _CHECKS.get(name)
        if check is None:
            known = ", ".join(_CHECKS)
            raise TypeError(
                f"{owner}: settings have no member {name!r}; known: {known}\n\n"
                "hint: what only one provider knows goes into extra_body"
            )
        settings[name] = check(f"{owner}: settings[{name!r}]", value)
    return cast(ModelSettings, settings)


def tool_choice_of(settings: ModelSettings, *, has_tools: bool) -> str | None:
    """What a request is to say of the choice of tools; None for nothing, which providers refuse in a request without
    any (not `has_tools`). `InvalidSettings` where one must be called and there is none."""
    choice = settings.get("tool_choice")
    if has_tools or choice is None:
        return choice
    if choice not in ("auto", "none"):
        raise InvalidSettings(f"tool_choice is {choice!r}, and the request has no tools")
    return None


def _number(most: float) -> Callable[[str, Any], float]:
    def check(what: str, value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise TypeError(f"{what} must be a number, got {type(value).__name__}")
        if not (0 <= value <= most and math.isfinite(value)):
            limit = "0 or more" if math.isinf(most) else f"from 0 to {most:g}"
            raise ValueError(f"{what} must be {limit}, got {value!r}")
        return value

    return check


def _tokens(what: str, value: Any) -> int:
    if type(value) is not int:
        raise TypeError(f"{what} must be a whole number, got {type(value).__name__}")
    if value < 1:
        raise ValueError(f"{what} must be 1 or more, got {value!r}")
    return value


def _stop(what: str, value: Any) -> str | list[str]:
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise TypeError(f"{what} must be a str or a list of str, got {value!r}")
    if not all(texts):
        raise ValueError(f"{what} must not be empty: a reply would end where it begins")
    return value if isinstance(value, str) else [*texts]


def _text(what: str, value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{what} must be a str, got {type(value).__name__}")
    if not value:
        raise ValueError(f"{what} must not be empty")
    return value


def _flag(what: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{what} must be True or False, got {type(value).__name__}")
    return value


def _body(what: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"{what} must be a dict, got {type(value).__name__}")
    for own in _OWN_MEMBERS:
        if own in value:
            raise ValueError(f"{what} must not have the member {own!r}: the agent says what it is")
    try:
        copied: dict[str, Any] = json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(f"{what} must be JSON: {error}") from None
    return copied


_CHECKS: Final[Mapping[str, Callable[[str, Any], Any]]] = {
    "temperature": _number(math.inf),
    "top_p": _number(1),
    "max_tokens": _tokens,
    "stop": _stop,
    "tool_choice": _text,
    "parallel_tool_calls": _flag,
    "reasoning_effort": _text,
    "extra_body": _body,
}
