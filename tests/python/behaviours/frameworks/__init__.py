"""A scene as an agent of another framework, a module for each, written as that framework's documentation has it.

Each has `agent_of(scene, ledger)`, which returns an agent for `hitl.run`, and the requests of its model as they come.
"""

from __future__ import annotations

from typing import Any

from tests.python.behaviours.scenes import Scene

Messages = list[dict[str, Any]]
Played = tuple[Any, list[Messages]]
"""An agent, and what its model is sent, in the words of `Conversation.messages`."""


def reply_at(scene: Scene, number: int, prefix: str = "") -> dict[str, Any]:
    """What the model says where the conversation holds so many of its replies, each of its calls with an id, which
    begins with ``prefix``."""
    reply = scene.script[number]
    made = [
        {"id": call.get("id") or f"{prefix}call_{number}_{place}", "name": call["name"], "args": call["args"]}
        for place, call in enumerate(reply.get("tool_calls") or ())
    ]
    return {"content": reply.get("content"), "calls": made, "usage": reply.get("usage") or {}}


def words(text: str) -> list[str]:
    """A text in the pieces that it is streamed in."""
    return [word if place == 0 else f" {word}" for place, word in enumerate(text.split(" "))]


def with_calls(content: str, calls: list[Any], id_of: Any) -> dict[str, Any]:
    """A reply of the model in the words of `Conversation.messages`."""
    return {"role": "assistant", "content": content, "tool_calls": [{"id": id_of(call)} for call in calls]}
