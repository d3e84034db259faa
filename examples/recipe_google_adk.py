"""Google ADK: what models say and tools do are steps of hitl, and tools ask a person. It takes a model and a plugin.

    hitl serve examples.recipe_google_adk:agent

Try `clean up`. Kill the server with `kill -9` while it waits: what the model said is not asked for again, and the file
is deleted once. `Journaled(model=Gemini(model="gemini-2.5-flash"))` has a real model answer.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, cast

from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.events import EventActions
from google.adk.models import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.runners import InMemoryRunner
from google.adk.tools import BaseTool, ToolContext
from google.genai import types

import hitl
from hitl import ChatMessage

DELETED = Path(os.environ.get("DELETED_FILES", "deleted_files.txt"))
GATED = {"delete_file"}


class Offline(BaseLlm):
    """A model without a mind: it has a file deleted."""

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        parts = [part for content in llm_request.contents for part in content.parts or ()]
        results = [part.function_response.response or {} for part in parts if part.function_response]
        call = types.FunctionCall(id="call-1", name="delete_file", args={"path": "old.log"})
        part = types.Part(text=str(next(iter(results[0].values())))) if results else types.Part(function_call=call)
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


class Journaled(BaseLlm):
    """Another model, each reply of which is a step."""

    of: BaseLlm

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        async def replies() -> list[dict[str, Any]]:
            said = self.of.generate_content_async(llm_request)
            return [each.model_dump(mode="json", exclude_none=True) async for each in said]

        for reply in await hitl.step(replies):
            yield LlmResponse.model_validate(reply)


class Gate(BasePlugin):
    """Asks before a call, and makes a step of it."""

    async def before_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext
    ) -> dict[str, Any]:
        if tool.name in GATED:
            try:
                given = await hitl.approval(tool.name, tool_args, tool_call_id=tool_context.function_call_id)
            except hitl.ToolRejected as no:
                return {"error": str(no)}
            if given.responded:
                return {"result": given.response}
            tool_args = given.args

        @hitl.step(once=tool.name in GATED)  # a crash in the middle of it is a question to a person, and no second try
        async def call() -> dict[str, Any]:
            result: Any = await tool.run_async(args=tool_args, tool_context=tool_context)
            return {"result": result, "actions": tool_context.actions.model_dump(mode="json", exclude_defaults=True)}

        made = await call()
        keep(made["actions"], tool_context)
        result: Any = made["result"]
        return cast("dict[str, Any]", result) if isinstance(result, dict) else {"result": result}


def keep(actions: dict[str, Any], context: ToolContext) -> None:
    """What a tool has told ADK beside its result (its state, a transfer to another agent) holds in a replay too."""
    told = EventActions.model_validate(actions)
    context.state.update(told.state_delta)
    for name in told.model_fields_set - {"state_delta"}:
        setattr(context.actions, name, getattr(told, name))


def delete_file(path: str) -> str:
    """Delete a file."""
    with DELETED.open("a", encoding="utf-8") as deleted:
        deleted.write(f"{path}\n")
    return f"Deleted {path}."


root = LlmAgent(name="cleaner", model=Journaled(model="offline", of=Offline(model="offline")), tools=[delete_file])


async def agent(message: ChatMessage, state: list[ChatMessage]) -> tuple[ChatMessage, list[ChatMessage]]:
    runner = InMemoryRunner(app=App(name="cleaner", root_agent=root, plugins=[Gate("gate")]))
    session = await runner.session_service.create_session(app_name="cleaner", user_id="user", session_id="one")
    said = types.Content(role="user", parts=[types.Part(text=message.content)])
    text = ""
    async for event in runner.run_async(user_id="user", session_id=session.id, new_message=said):
        if event.is_final_response() and event.content is not None:
            text = "".join(part.text or "" for part in event.content.parts or ())
    reply = ChatMessage.assistant_message(content=text)
    return reply, [*state, message, reply]
