"""An edit that its tool does not take, whoever runs the tool: its person is asked once more.

Turns of versions that told the model instead go on so; a turn that has asked goes on with that, although the types, or
a hook, take the edit by now.
"""

from __future__ import annotations

from hitl.turn.runtime import Turn


async def goes_new_way(turn: Turn, name: str, key: str) -> bool:
    """Whether the turn does what versions before this one did not, which is a step: False where its journal goes on
    without."""

    async def body() -> bool:
        return True

    is_new: bool = await turn.run_step("policy", name, body, key=key, past=False, is_edit=True, by_any_code=True)
    return is_new


async def is_refused(turn: Turn, tool_name: str, call: str) -> bool:
    """Whether a person whose edit does not fit is asked once more, about the ``call`` of this id or name."""
    return await goes_new_way(turn, f"{tool_name}.refused_edit", _key(call))


def was_refused(turn: Turn, call: str, before: str | None) -> bool:
    """Whether the journal has it that the edit which a person just gave was refused; ``before`` is the key of a step
    that would be of a later call, as what follows it would."""
    return turn.is_recorded_before(_key(call), before)


def is_recorded_before_refusal(turn: Turn, key: str, call: str) -> bool:
    """Whether the step of this ``key`` was recorded before the edit was refused."""
    return turn.is_recorded_before(key, _key(call))


def _key(call: str) -> str:
    return f"refused edit:{call}"
