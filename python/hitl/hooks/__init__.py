"""Hooks that ask: `event.interrupt(name, reason)` before a tool call, `tool_context.interrupt(...)` inside a tool.

A dictionary: an agent of this package is a `ReActAgent` whose hook asks a hitl interrupt; its conversation is a session
of a store, and to go on is `hitl.run` from that session's `RunState`. docs/from-strands.md has both columns.
"""

from __future__ import annotations

from hitl.hooks.agent import Agent, AgentResult
from hitl.hooks.events import BeforeToolCallEvent, HookProvider, HookRegistry, ToolUse
from hitl.hooks.interrupts import Interrupt, InterruptException, InterruptResponse, InterruptResponseContent
from hitl.hooks.tools import ToolContext, tool

__all__ = [
    "Agent",
    "AgentResult",
    "BeforeToolCallEvent",
    "HookProvider",
    "HookRegistry",
    "Interrupt",
    "InterruptException",
    "InterruptResponse",
    "InterruptResponseContent",
    "ToolContext",
    "ToolUse",
    "tool",
]
