"""Testing agents: a chat client that follows a script, and a pytest plugin that serves an agent and plays the person.

The plugin comes with the package; its fixtures are `hitl_server`, `hitl_client` and `human`.
"""

from __future__ import annotations

from importlib import import_module as _import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hitl.testing.human import Human as Human
    from hitl.testing.human import UnexpectedInterrupt as UnexpectedInterrupt
    from hitl.testing.live_server import HitlServer as HitlServer
    from hitl.testing.live_server import LiveServer as LiveServer
    from hitl.testing.live_server import TurnFailed as TurnFailed
    from hitl.testing.scripted import ScriptedChatClient as ScriptedChatClient
    from hitl.testing.scripted import ScriptExhausted as ScriptExhausted

# pytest imports this package at its start, for the plugin: everything else waits until it is used.
_EXPORTS: dict[str, str] = {
    "HitlServer": "hitl.testing.live_server",
    "Human": "hitl.testing.human",
    "LiveServer": "hitl.testing.live_server",
    "ScriptExhausted": "hitl.testing.scripted",
    "ScriptedChatClient": "hitl.testing.scripted",
    "TurnFailed": "hitl.testing.live_server",
    "UnexpectedInterrupt": "hitl.testing.human",
}

__all__ = [
    "HitlServer",
    "Human",
    "LiveServer",
    "ScriptExhausted",
    "ScriptedChatClient",
    "TurnFailed",
    "UnexpectedInterrupt",
]


def _get(name: str) -> Any:
    module = _EXPORTS.get(name)
    if module is None:
        raise AttributeError(f"module 'hitl.testing' has no attribute {name!r}")
    value = getattr(_import_module(module), name)
    globals()[name] = value
    return value


if not TYPE_CHECKING:
    # A checker that saw it would take every misspelt name for a public one.
    __getattr__ = _get


def __dir__() -> list[str]:
    return sorted({*globals(), *_EXPORTS})
