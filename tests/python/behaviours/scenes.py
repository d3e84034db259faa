"""What a test plays: tools, which of them need approval, and what the model says. As data, so that it can travel."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Self

from tests.python.behaviours.ledger import Ledger

Reply = dict[str, Any]
Policy = Callable[[dict[str, Any]], Awaitable[bool]]


@dataclass(frozen=True)
class Scene:
    """One agent. Every face builds it in its own words."""

    script: list[Reply]
    """What the model says, reply by reply, over all turns."""

    gated: list[str] = field(default_factory=list)
    """Tools that a person must approve."""

    free: list[str] = field(default_factory=list)
    """Tools that just run."""

    allowed: list[str] = field(default_factory=lambda: ["approve", "edit", "reject"])
    """How a person may decide about gated tools, where a face can say that."""

    policy: str | None = None
    """Of `policies()`: whether a call of a gated tool needs approval. None: each does."""

    inner: dict[str, Scene] = field(default_factory=dict)
    """Agents that are tools of this one, by name."""

    approve_inner: bool = False
    """Whether calling an inner agent needs approval itself."""

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, given: dict[str, Any]) -> Self:
        inner = {name: cls.from_json(scene) for name, scene in given["inner"].items()}
        return cls(**{**given, "inner": inner})


def call(name: str, id: str | None = None, **args: Any) -> dict[str, Any]:
    """One call of a tool."""
    return {"name": name, "args": args} | ({} if id is None else {"id": id})


def calls(*made: dict[str, Any], content: str | None = None, usage: dict[str, int] | None = None) -> Reply:
    """A reply of the model that calls tools, all at once."""
    return {"tool_calls": list(made), "content": content, "usage": usage or {}}


def says(content: str, usage: dict[str, int] | None = None) -> Reply:
    """A reply of the model that ends the turn."""
    return {"content": content, "usage": usage or {}}


DONE = says("done")


def charge(cents: int = 5, id: str | None = None) -> dict[str, Any]:
    """A call of the tool that most tests gate."""
    return call("charge", id, cents=cents)


def effects(ledger: Ledger) -> dict[str, Callable[..., Any]]:
    """The tools that do something, by name. Those that ask are the faces' own: each has its words for that."""

    async def charge(cents: int) -> str:
        """Charge a card."""
        ledger.write(f"charge {cents}")
        return f"charged {cents}"

    async def refund(cents: int) -> str:
        """Give money back."""
        ledger.write(f"refund {cents}")
        return f"refunded {cents}"

    async def decline(cents: int) -> str:
        """Charge a card that a bank declines."""
        ledger.write(f"decline {cents}")
        raise ValueError(f"the bank declined {cents}")

    async def note(text: str) -> str:
        """Write a line."""
        ledger.write(f"note {text}")
        return f"noted {text}"

    return {function.__name__: function for function in (charge, refund, decline, note)}


def policies(ledger: Ledger) -> dict[str, Policy]:
    """Whether a call needs approval, by its arguments."""

    async def over_a_hundred(args: dict[str, Any]) -> bool:
        ledger.policy_asked(f"over {args['cents']}")
        return bool(args["cents"] > 100)

    async def slow_over_a_hundred(args: dict[str, Any]) -> bool:
        await asyncio.sleep(0)
        return await over_a_hundred(args)

    async def broken(args: dict[str, Any]) -> bool:
        ledger.policy_asked("broken")
        raise LookupError("the rule book is gone")

    return {policy.__name__: policy for policy in (over_a_hundred, slow_over_a_hundred, broken)}
