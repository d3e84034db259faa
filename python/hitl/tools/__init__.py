"""What a model may call: tools, their options, and what stands between a call and its result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hitl.tools.context import RunContext as RunContext
    from hitl.tools.definition import Tool as Tool
    from hitl.tools.definition import tool as tool

__all__ = ["RunContext", "Tool", "tool"]


if not TYPE_CHECKING:
    # A checker that saw it would take every misspelt name for a public one.

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module 'hitl.tools' has no attribute {name!r}")
        # Late: some modules of this room are needed where no tool is.
        from hitl.tools import definition

        return getattr(definition, name)
