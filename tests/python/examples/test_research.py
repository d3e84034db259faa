"""Research: agents that work at once, what one of them asks, and a report of a type, also over a kill."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import hitl
from examples.research import Report, agent
from tests.python.support.api import ok
from tests.python.support.served import ROOT, Served, clean_environment

TREES = "The tallest known tree is a coast redwood of 116 m. (Field guide)"
WATER = "Water rises in a tree by its own cohesion. (Textbook)"
ARTICLE = "Theory puts the limit at 122 to 130 m. (Journal of Botany)"


@pytest.mark.parametrize(
    ("decide", "last", "sources"),
    [
        (hitl.RunState.approve, ARTICLE, ["Textbook", "Field guide", "Journal of Botany"]),
        (hitl.RunState.reject, "No article: User rejected buy_article", ["Textbook", "Field guide"]),
    ],
    ids=["yes", "no"],
)
async def test_what_an_inner_agent_asks_comes_out_and_the_report_has_its_type(
    decide: Callable[[hitl.RunState, hitl.Interrupt], Any], last: str, sources: list[str]
) -> None:
    result = await hitl.run(agent, "how tall?")
    assert result.status == "interrupted"
    (asked,) = result.interrupts
    assert (asked.agent, asked.tool_args) == ("buyer", {"subject": "trees", "cents": 900})
    decide(result.state, asked)
    result = await hitl.run(agent, hitl.RunState.from_string(agent, result.state.to_string()))
    assert result.output == Report("how tall?", [WATER, TREES, last], sources)


def test_a_kill_while_it_waits_costs_nothing(tmp_path: Path) -> None:
    store = f"sqlite:{tmp_path / 'hitl.db'}"
    with Served("examples.research:agent", store=store) as server:
        session_id = server.api.create()
        (asked,) = server.api.settled(session_id, "how tall?", 1)["interrupts"]
        server.kill()
    with Served("examples.research:agent", store=store) as server:
        ok(server.api.resume(session_id, asked["interrupt_id"], {"approved": True}))
        session = server.api.wait(session_id)
    assert json.loads(session["response"]["content"])["findings"] == [WATER, TREES, ARTICLE]


def test_it_asks_on_the_terminal(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "examples.research", "how tall?"],
        check=False,
        cwd=tmp_path,
        env={**clean_environment(), "PYTHONPATH": str(ROOT)},
        input="too dear\n",
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    assert "buyer wants buy_article {'subject': 'trees', 'cents': 900} [y/N]" in done.stdout
    assert "- No article: User rejected buy_article: too dear" in done.stdout
