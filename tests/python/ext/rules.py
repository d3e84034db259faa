"""Agents of frameworks at work under a rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hitl.driver.shapes import as_agent
from hitl.messages import ChatMessage
from tests.python.support.local import PENDING, LocalTurn

DENIED = {"type": "reject", "reason": "forced", "by": "policy"}


def no_force(request: Any) -> Any:
    """A rule that denies what is forced; a person says what people say."""
    if request["payload"]["tool_args"].get("force") is True:
        return DENIED
    return PENDING if request.get("required", True) else {"type": "approve", "by": "policy"}


async def judged(agent: Any, rule: Callable[[Any], Any] | None = no_force) -> tuple[str, LocalTurn]:
    """The reply of an agent that works under a rule, or under none. A person says yes."""
    loaded = as_agent(agent)
    start = {"at": 1, "entry": "start", "code": "code-1", "python": "3.11", "policy": rule is not None}
    local = LocalTurn(agent=loaded.name, journal=[start])
    if rule is not None:
        local.port.decide_at_once = rule
    local.port.answers = lambda request: {"type": "approve"}
    reply, _ = await local.run(loaded.run, ChatMessage.user_message(content="go"), [])
    await local.end()
    return reply.content or "", local
