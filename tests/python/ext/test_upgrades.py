"""A framework that is upgraded while something waits: the turn goes on, or its error names the version."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

import hitl
from hitl.errors import UnreadableJournal
from hitl.ext.versions import reading
from tests.python.behaviours.ledger import Ledger
from tests.python.behaviours.scenes import DONE, Scene, calls, charge
from tests.python.ext.proof import FRAMEWORKS
from tests.python.support.frameworks import ELSEWHERE

DISTRIBUTIONS = {
    "langgraph": ("langgraph", "langchain-core"),
    "openai_agents": ("openai-agents",),
    "pydantic_ai": ("pydantic-ai-slim",),
    "strands": ("strands-agents",),
}

Change = Callable[[dict[str, Any]], Any]


@pytest.fixture(params=[name for name in FRAMEWORKS if name not in ELSEWHERE])
def framework(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def resumed(framework: str, folder: Path, change: Change) -> Any:
    """How a turn ends that was parked before the framework was upgraded: `change` makes of the step with a reply
    what another version would have."""
    scene = Scene([calls(charge(1)), DONE], gated=["charge"])
    agent, _ = import_module(f"tests.python.behaviours.frameworks.{framework}").agent_of(scene, Ledger(folder))
    asked = hitl.run_sync(agent, "pay")
    assert asked.state is not None
    kept = json.loads(asked.state.to_string())
    change(next(entry for entry in kept["journal"] if _is_read_back(entry)))
    state = hitl.RunState.from_string(agent, json.dumps(kept))
    return hitl.run_sync(agent, state.approve(asked.interrupts[0]))


def _is_read_back(entry: dict[str, Any]) -> bool:
    """Whether the step is what the framework gets the reply from: of a graph it is the node's, once that is over."""
    path = (entry.get("step") or {}).get("path", "")
    return path.startswith(("~model:", "~node:model:")) and "/" not in path


def objects(value: Any) -> list[dict[str, Any]]:
    """Every object in a value."""
    below = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [*([value] if isinstance(value, dict) else []), *(found for each in below for found in objects(each))]


def names_the_version(error: str, framework: str) -> bool:
    return any(f"{name} {version(name)}" in error for name in DISTRIBUTIONS[framework])


def test_what_another_version_adds_is_passed_over(framework: str, tmp_path: Path) -> None:
    def newer(reply: dict[str, Any]) -> None:
        for found in objects(reply["result"]["value"]):
            # A call of LangChain's is a class that takes no other members: that is an error, as below.
            if {"type", "part_kind", "toolUseId"} & found.keys() and found.get("type") != "tool_call":
                found["of_another_version"] = None

    result = resumed(framework, tmp_path, newer)
    assert (result.status, result.output) == ("idle", "done"), result.error
    assert Ledger(tmp_path).lines == ["charge 1"]


def test_what_cannot_be_read_is_an_error_that_names_the_version(framework: str, tmp_path: Path) -> None:
    def other(reply: dict[str, Any]) -> None:
        of_it = {"$langchain": "message", "value": {"type": "of another version", "data": {}}}
        reply["result"]["value"] |= {"native": of_it, "writes": [["messages", of_it]]}

    result = resumed(framework, tmp_path, other)
    assert (result.status, result.error_code) == ("error", "journal_unreadable"), result.error
    assert names_the_version(result.error, framework), result.error
    assert Ledger(tmp_path).lines == []


def test_what_is_done_in_another_way_is_a_mismatch_that_names_the_version(framework: str, tmp_path: Path) -> None:
    result = resumed(framework, tmp_path, lambda reply: reply["step"].update(path="~other", key="other"))
    assert (result.status, result.error_code) == ("error", "replay_mismatch"), result.error
    assert names_the_version(result.error, framework), result.error
    assert Ledger(tmp_path).lines == []


def test_what_cannot_be_read_is_not_shown() -> None:
    """It is what was said, and what tools were called with; such an error is stored, logged and told to clients."""
    given = {"card": "4711-0815", "cents": "many"}
    with pytest.raises(UnreadableJournal) as caught, reading("pydantic"):
        TypeAdapter(dict[str, int]).validate_python(given)
    assert "4711" not in str(caught.value)
    assert "card: Input should be a valid integer" in str(caught.value)
    assert "and 1 more" in str(caught.value)
    assert caught.value.__suppress_context__
