"""The settings of one run: what its caller says of how models are asked, as a step of the turn, so that a state goes on
with them in another process."""

from __future__ import annotations

from typing import Any

from hitl.model_settings import check_settings
from hitl.turn.runtime import SETTINGS_KEY, Turn


def refuse_settings(name: str, target: object) -> None:
    """TypeError where the agent of this name is one of a framework: it has settings of its own, and would not see those
    of a run."""
    distribution = getattr(target, "distribution", None)
    if distribution is not None:
        raise TypeError(
            f"hitl.run(): settings are for agents of hitl's own, and {name} is one of {distribution}\n\n"
            f"hint: give it the settings of its model, as {distribution} has them"
        )


async def set_settings(turn: Turn) -> None:
    """Record the settings that the run was given, or take those that are recorded."""
    asked = turn.settings

    async def said() -> dict[str, Any]:
        return dict(asked)

    recorded = await turn.run_step("step", "settings", said, key=SETTINGS_KEY, past=asked)
    turn.settings = check_settings("hitl.run()", recorded)
