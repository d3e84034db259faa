"""Who may answer, known before anybody is asked: from `/me` and the interrupt. The server decides all the same."""

from __future__ import annotations

from collections.abc import Sequence

from hitl.cli.failures import first_keys
from hitl.client import Interrupt, Me

_GROUP = "group:"
_LETS_RUN = ("tool_approval", "unknown_outcome")
"""Types of which an answer may always let a tool run."""


def why_not(interrupt: Interrupt, me: Me) -> str | None:
    """Why whoever sits here cannot answer, and who can, in words; None where they can."""
    named = interrupt.approvers
    only = f"Only {listed(named)} can answer this"
    if not me.authentication:
        if not named:
            return None
        return f"{only}, and this server has no keys to tell who asks. So nobody can: {first_keys(named)}."
    # First who can, which a key with another scope would not change.
    if named and not any(_is(me, one) for one in named):
        return f"{only}."
    if not me.may("answer"):
        return "Your key may not answer; one with the scope `answer` can."
    if not me.prevent_self_approval or not (interrupt.lets_run or interrupt.type in _LETS_RUN):
        return None
    if interrupt.sent_by is None:
        return None if me.may("admin") else "Only an admin can answer this: nobody knows who sent the message."
    if interrupt.sent_by != me.name:
        return None
    others = [one for one in named if one != me.name]
    return f"The message was yours, so {listed(others) if others else 'somebody else'} has to answer this."


def _is(me: Me, approver: str) -> bool:
    if approver.startswith(_GROUP):
        return approver.removeprefix(_GROUP) in me.groups
    return approver == me.name


def listed(approvers: Sequence[str]) -> str:
    """Approvers in words: `ada, bob or somebody in finance`."""
    words = [f"somebody in {one.removeprefix(_GROUP)}" if one.startswith(_GROUP) else one for one in approvers]
    return " or ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)
