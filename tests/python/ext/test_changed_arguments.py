"""On a server: a rule that allows a call lets nothing run but what it saw."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.python.support.served import Served

RULES = """
[[rule]]
name = "not-in-production"
effect = "deny"
tool = "deploy"
when = "args.place == 'prod'"

[[rule]]
name = "else-free"
effect = "allow"
tool = "deploy"
"""


@pytest.mark.parametrize("agent", ["pydantic_ai", "gated", "putting_off", "langgraph"])
def test_a_call_that_becomes_another_one_is_for_a_person_though_a_rule_allows_it(agent: str, tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text(RULES)
    with Served(f"tests.python.ext.shouting_agents:{agent}_agent", policy=policy) as served:
        session = served.api.settled(served.api.create(), "go", 1)
        assert session["status"] == "interrupted", session
        (asked,) = session["interrupts"]
        assert asked["payload"]["tool_args"] == {"place": "PROD"}
        assert asked["rule"] == "policy:else-free"
        assert "something else may run than the arguments say" in asked["rule_failed"]
