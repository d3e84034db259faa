"""Recipes for what has no adapter: asked, answered, and in a loop of one's own, killed."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import pytest

import hitl
from tests.python.support import recipe_fakes
from tests.python.support.api import ok
from tests.python.support.served import Served

YES, NO = {"type": "approve"}, {"type": "reject"}


@pytest.fixture
def deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What was deleted."""
    monkeypatch.setenv("DELETED_FILES", str(tmp_path / "deleted"))
    for module in [name for name in sys.modules if name.startswith("examples.recipe_")]:
        monkeypatch.delitem(sys.modules, module)
    return tmp_path / "deleted"


def test_a_loop_of_ones_own_survives_a_kill(deleted: Path, tmp_path: Path) -> None:
    agent, store = "examples.recipe_loop:agent", f"sqlite:{tmp_path / 'hitl.db'}"
    with Served(agent, store=store) as first:
        session_id = first.api.create()
        asked = first.api.settled(session_id, "clean up", 2)["interrupts"]
        first.kill()
    answers = {"old.log": YES, "todo.txt": NO}
    with Served(agent, store=store) as second:
        for each in asked:
            answer = answers[each["payload"]["tool_args"]["path"]]
            ok(second.api.resume(session_id, each["interrupt_id"], answer))
        session = second.api.wait(session_id)
    assert session["response"]["content"] == "Deleted old.log.\nUser rejected delete_file"
    assert deleted.read_text() == "old.log\n"


async def test_a_crew_asks_once_and_is_replayed(deleted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    modules = recipe_fakes.crewai()
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    agent = import_module("examples.recipe_crewai").agent
    asked = await hitl.run(agent, "clean up")
    assert [each.tool_args for each in asked.interrupts] == [recipe_fakes.CALL]
    result = await hitl.run(agent, asked.state.approve(asked.interrupts[0]))
    assert (result.output, deleted.read_text()) == ("Deleted old.log.", "old.log\n")
    assert len(modules["crewai"].LLM.asked) == 2


@pytest.mark.parametrize(
    ("decision", "said"),
    [
        ({"type": "edit", "args": {"path": "older.log"}}, "Deleted {'path': 'older.log'}."),
        ({"type": "reject", "reason": "still needed"}, "User rejected delete_file: still needed"),
    ],
    ids=["edit", "reject"],
)
def test_claude_is_told_what_a_person_decided(
    decision: dict[str, object], said: str, hitl_server: hitl.testing.HitlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, module in recipe_fakes.claude_agent_sdk().items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.delitem(sys.modules, "examples.recipe_claude_agent_sdk", raising=False)
    server = hitl_server(import_module("examples.recipe_claude_agent_sdk").agent)
    session = server.create_session()
    asked = server.client.ask(session.session_id, "clean up")
    (question,) = asked.interrupts or ()
    server.client.resume(session.session_id, question.interrupt_id, decision)
    done = server.client.wait(session.session_id)
    assert done.response is not None
    assert done.response.content == said
