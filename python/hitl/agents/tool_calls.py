"""From the tool calls of a model's message to the tool messages that answer them."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterable, Mapping
from typing import Any, cast

from hitl.approvals import call_tool
from hitl.errors import HitlError, ReplayMismatch, WorkerProtocolError
from hitl.messages import ChatMessage, ToolCall
from hitl.tool_schema import InvalidArguments, parse_arguments
from hitl.tools import Tool

logger = logging.getLogger("hitl.agents")


class ToolBox:
    """The tools of one agent in one turn."""

    def __init__(self, tools: Iterable[Tool[..., Any]]):
        self._tools: dict[str, Tool[..., Any]] = {}
        for tool in tools:
            if tool.name in self._tools:
                raise ValueError(f"two tools are called {tool.name!r}\n\nhint: rename one with tool(..., name=...)")
            self._tools[tool.name] = tool

    @property
    def definitions(self) -> list[dict[str, Any]]:
        """The tools as a model request lists them."""
        return [tool.definition for tool in self._tools.values()]

    async def answer(self, call: ToolCall, doomed: Mapping[str, str]) -> ChatMessage:
        """Run one call; everything a model or a tool can do wrong becomes an error message to the model.

        `doomed`: see `own_ids`.
        """
        name = call["function"]["name"]
        try:
            content = tool_content(await self._run(call, doomed))
        except (ReplayMismatch, WorkerProtocolError):
            raise  # not the tool's failure: this turn cannot go on
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            content = error_content(RuntimeError("the tool cancelled itself"))
        except Exception as error:  # noqa: BLE001  (whatever a tool raises is the model's to read)
            logger.debug("tool %s failed with %s", name, type(error).__name__)
            content = error_content(error)
        return ChatMessage.tool_message(content=content, tool_call_id=call["id"], name=name)

    async def _run(self, call: ToolCall, doomed: Mapping[str, str]) -> Any:
        name = call["function"]["name"]
        if call["id"] in doomed:
            shared = doomed[call["id"]]
            raise InvalidArguments(f"several calls of this message have the id {shared!r}: none of them ran")
        tool = self._tools.get(name)
        if tool is None:
            known = ", ".join(self._tools) or "none"
            raise InvalidArguments(f"unknown tool {name!r}; known tools: {known}")
        return await call_tool(tool, parse_arguments(call["function"]["arguments"]), tool_call_id=call["id"])


def own_ids(message: ChatMessage) -> tuple[ChatMessage, dict[str, str]]:
    """The message with an id of its own for every call, and the new ids of those that shared one (new -> shared).

    Which of two calls an answer to their common id would mean nobody can tell, so neither may run; they get new
    ids because providers refuse a history with the old.
    """
    calls = message.tool_calls or []
    ids = [call["id"] for call in calls]
    if len(set(ids)) == len(ids):
        return message, {}
    doomed: dict[str, str] = {}
    renamed: list[ToolCall] = []
    for index, call in enumerate(calls):
        if ids.count(call["id"]) > 1:
            new = f"{call['id']}_{index}"
            while new in ids or new in doomed:
                new += "_"
            doomed[new] = call["id"]
            renamed.append(cast(ToolCall, {**call, "id": new}))
        else:
            renamed.append(call)
    return ChatMessage.from_dict({**message.to_dict(), "tool_calls": renamed}), doomed


def tool_content(result: Any) -> str:
    """A tool's result as a model reads it: text as it is, everything else as JSON."""
    if isinstance(result, str):
        return result
    from pydantic_core import to_json

    return to_json(result, by_alias=True, inf_nan_mode="strings").decode()


def error_content(error: Exception) -> str:
    """`{"error": ...}`: our own errors speak for themselves, others with their class."""
    text = str(error)
    if not isinstance(error, HitlError | InvalidArguments):
        text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return json.dumps({"error": text}, ensure_ascii=False)
