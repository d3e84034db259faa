"""The settings of one run: what its caller says of how models are asked, as a step of the turn, so that a state goes on
with them in another process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hitl.model_settings import check_settings

if TYPE_CHECKING:
    from hitl.turn.runtime import Turn

KEY = "hitl.settings"
"""Names the step. A key, so that the steps of an agent that is run with settings are numbered as without."""


async def set_settings(turn: Turn) -> None:
    """Record the settings that the run was given, or take those that are recorded."""
    asked = turn.settings

    async def said() -> dict[str, Any]:
        return dict(asked)

    turn.settings = check_settings("hitl.run()", await turn.run_step("step", "settings", said, key=KEY, past=asked))
