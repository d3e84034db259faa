"""The recipe for an agent of Google ADK: asked, killed, answered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.adk.tools import ToolContext
from google.genai import types

import hitl
from examples import recipe_google_adk
from tests.python.support.api import ok
from tests.python.support.served import Served

AGENT = "examples.recipe_google_adk:agent"


def test_a_server_that_is_killed_while_it_waits_deletes_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DELETED_FILES", str(tmp_path / "deleted"))
    store = f"sqlite:{tmp_path / 'hitl.db'}"
    with Served(AGENT, store=store) as first:
        session_id = first.api.create()
        asked = first.api.settled(session_id, "clean up", 1)["interrupts"][0]
        first.kill()
    edit = {"type": "edit", "args": {"path": "older.log"}}
    with Served(AGENT, store=store) as second:
        ok(second.api.resume(session_id, asked["interrupt_id"], edit))
        session = second.api.wait(session_id)
    assert session["response"]["content"] == "Deleted older.log."
    assert (tmp_path / "deleted").read_text() == "older.log\n"


class Calls(BaseLlm):
    """A model that has these tools called, one after the other, and then repeats what came of the last."""

    calls: list[Any]

    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> Any:
        parts = [part for content in llm_request.contents for part in content.parts or ()]
        called = {name for name, _ in self.calls}
        results = [part.function_response for part in parts if part.function_response]
        own = [result.response for result in results if result.name in called]
        if len(own) < len(self.calls):
            name, args = self.calls[len(own)]
            part = types.Part(function_call=types.FunctionCall(id=f"{name}-{len(own)}", name=name, args=args))
        else:
            part = types.Part(text=str(own[-1]["result"]))
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


def agent_of(name: str, *calls: tuple[str, dict[str, Any]], **options: Any) -> LlmAgent:
    model = recipe_google_adk.Journaled(model="offline", of=Calls(model="offline", calls=list(calls)))
    return LlmAgent(name=name, model=model, **options)


def delete_file(path: str, tool_context: ToolContext) -> str:
    """Delete a file."""
    tool_context.state["deleted"] = [*tool_context.state.get("deleted", []), path]
    return ", ".join(tool_context.state["deleted"])


async def test_what_tools_tell_adk_beside_their_results_holds_when_a_turn_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = [("delete_file", {"path": path}) for path in ("old.log", "older.log")]
    inner = agent_of("inner", *calls, tools=[delete_file])
    outer = agent_of("outer", ("transfer_to_agent", {"agent_name": "inner"}), sub_agents=[inner])
    monkeypatch.setattr(recipe_google_adk, "root", outer)
    result = await hitl.run(recipe_google_adk.agent, "clean up")
    for _ in calls:
        result = await hitl.run(recipe_google_adk.agent, result.state.approve(result.interrupts[0]))
    assert result.output == "old.log, older.log"
