"""Who may let a call run, as plainly as it can be said: what a server has to agree with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Args = dict[str, Any]

GATED = {"charge": True, "note": False}
GROUPS = {"ada": set[str](), "bob": {"finance"}}
EXPRESSIONS = {
    None: lambda args: True,
    "args.cents > 5": lambda args: args["cents"] > 5,
    "has(args.cents) && args.cents < 3": lambda args: "cents" in args and args["cents"] < 3,
    "args.gone": lambda args: args["gone"],
    "size(args.ledger) > 1": lambda args: True,
}
"""What `when` may be, and what it says of arguments; a `KeyError` where it cannot tell."""


@dataclass(frozen=True)
class Rule:
    name: str
    effect: str
    tool: str
    when: str | None = None
    approvers: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        members = {"name": self.name, "effect": self.effect, "tool": self.tool, "when": self.when}
        members = {**members, "approvers": list(self.approvers)}
        return {name: value for name, value in members.items() if value}


@dataclass
class Ruling:
    """What rules say about one call."""

    says: list[tuple[Rule, str]] = field(default_factory=list)
    """Each rule that has a say, and its effect."""
    is_unsure: bool = False

    def add(self, rules: list[Rule], tool: str, args: Args) -> bool:
        """Look at rules up to the first that clearly matches; whether there is one."""
        for rule in rules:
            if rule.tool not in (tool, "*"):
                continue
            try:
                if not EXPRESSIONS[rule.when](args):
                    continue
            except KeyError:
                self.is_unsure = True
                self.says.append((rule, "deny" if rule.effect == "deny" else "ask"))
            else:
                self.says.append((rule, rule.effect))
                return True
        return False

    @property
    def deciding(self) -> tuple[str | None, str | None]:
        """The strictest effect, and the first rule that has it."""
        for strictest in ("deny", "ask", "allow"):
            for rule, effect in self.says:
                if effect == strictest:
                    return effect, f"policy:{rule.name}"
        return None, None

    @property
    def approvers(self) -> list[tuple[str, ...]]:
        """Each of them has to mean whoever decides."""
        return [rule.approvers for rule, _ in self.says if rule.approvers]

    def lets(self, who: str) -> bool:
        """Whether the call may run because a person says so."""
        return self.deciding[0] != "deny" and all(means(approvers, who) for approvers in self.approvers)


def ruling(session: list[Rule], server: list[Rule], tool: str, args: Args) -> Ruling:
    """The session's rules come first; the server's have no say where one of those matched, and each could tell."""
    found = Ruling()
    if not found.add(session, tool, args) or found.is_unsure:
        found.add(server, tool, args)
    return found


def means(approvers: tuple[str, ...], who: str) -> bool:
    return not approvers or who in approvers or any(f"group:{group}" in approvers for group in GROUPS[who])
