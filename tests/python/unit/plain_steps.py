"""The simplest steps there are, for tests of the runtime."""

from typing import Any

from hitl.turn.runtime import current_turn


async def value(result: Any) -> Any:
    """A step's body."""
    return result


async def named(name: str, result: Any = None) -> Any:
    """A step of that name."""
    return await current_turn().run_step("step", name, lambda: value(result))
