"""What has to be kept of another framework's agent while it waits, beside what was said."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import hitl
from hitl.testing import HitlServer
from tests.python.behaviours.ledger import Ledger
from tests.python.behaviours.scenes import DONE, Scene, calls, charge
from tests.python.ext.proof import FRAMEWORKS
from tests.python.support.frameworks import ELSEWHERE

LIMITS = dict.fromkeys(FRAMEWORKS, 5_000) | {"langgraph": 15_000}
"""In bytes, with two calls that wait."""


@pytest.mark.parametrize("framework", [name for name in FRAMEWORKS if name not in ELSEWHERE])
def test_a_state_with_two_calls_that_wait_is_small(framework: str, tmp_path: Path) -> None:
    scene = Scene([calls(charge(1), charge(2)), DONE], gated=["charge"])
    agent, requests = import_module(f"tests.python.behaviours.frameworks.{framework}").agent_of(scene, Ledger(tmp_path))
    result = hitl.run_sync(agent, "pay")
    assert result.status == "interrupted"
    assert len(result.interrupts) == 2
    beyond = len(result.state.to_string()) - len(json.dumps(requests[-1]))
    assert beyond <= LIMITS[framework]


LARGE = "n" * 100_000


def with_state_of_langgraph() -> Any:
    graphs, messages = import_module("langgraph.graph"), import_module("langchain_core.messages")
    state = type("Noted", (graphs.MessagesState,), {"__annotations__": {"note": str}})

    def note(state: Any) -> dict[str, Any]:
        return {"messages": [messages.AIMessage(state.get("note", "nay")[:3])], "note": LARGE}

    return graphs.StateGraph(state).add_node("note", note).add_edge(graphs.START, "note").compile()


def with_state_of_strands() -> Any:
    strands, runs = import_module("strands"), import_module("tests.python.ext.strands_runs")

    seen: list[Any] = []

    def begin(event: Any) -> None:
        seen[:] = [event.agent.state.get("note")]
        event.agent.state.set("note", LARGE)

    agent = strands.Agent(runs.Speaking(lambda messages: (seen[0] or "nay")[:3]), name="noting")
    agent.hooks.add_callback(import_module("strands.hooks").BeforeInvocationEvent, begin)
    return agent


@pytest.mark.parametrize("framework", [name for name in ("langgraph", "strands") if name not in ELSEWHERE])
def test_a_session_has_the_last_state_and_none_of_those_before(framework: str, hitl_server: HitlServer) -> None:
    server = hitl_server({"langgraph": with_state_of_langgraph, "strands": with_state_of_strands}[framework])
    session = server.create_session()
    sizes, said = [], []
    for _ in range(4):
        said.append(server.send("go on", session).content)
        kept = [message.to_dict() for message in server.client.get_messages(session.session_id)]
        sizes.append(len(json.dumps(kept)))
    assert sizes[-1] - sizes[1] < 5_000, sizes
    assert said == ["nay", "nnn", "nnn", "nnn"]
