"""A planner whose tools pause: `run` and `resume` return an answer, or a pause with a token.

A dictionary: a planner is a `ReActAgent` whose paused tool asks a hitl interrupt; a token stands for a `RunState`, and
to resume is `hitl.run` from it. docs/from-penguiflow.md has both columns.
"""

from __future__ import annotations

from hitl.planner.catalog import ModelRegistry, Node, NodeSpec, build_catalog, tool
from hitl.planner.context import PauseDisabled, ToolContext
from hitl.planner.pauses import MemoryKey, StateStore, SupportsPlannerClaims, SupportsPlannerState
from hitl.planner.react import PlannerEvent, PlannerFinish, PlannerPause, ReactPlanner

__all__ = [
    "MemoryKey",
    "ModelRegistry",
    "Node",
    "NodeSpec",
    "PauseDisabled",
    "PlannerEvent",
    "PlannerFinish",
    "PlannerPause",
    "ReactPlanner",
    "StateStore",
    "SupportsPlannerClaims",
    "SupportsPlannerState",
    "ToolContext",
    "build_catalog",
    "tool",
]
