"""An agent whose turn is traced: models, tools, a question, steps of its own, spans and logs of its own."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from pathlib import Path

from opentelemetry import trace

import hitl
from hitl import ChatMessage, ReActAgent, tool
from hitl.models import OpenAIChatClient
from hitl.testing import ScriptedChatClient

logger = logging.getLogger("traced")
tracer = trace.get_tracer("traced")


@hitl.step()
async def look_up(path: str) -> int:
    return len(path)


@tool
async def size(path: str) -> int:
    """How large a file is."""
    with tracer.start_as_current_span("own work"):
        logger.warning("sizing")
    trace.get_current_span().set_attribute("own.attribute", "kept")
    return await look_up(path)


@tool(requires_approval=True)
async def delete(path: str) -> str:
    """Delete a file."""
    return f"deleted {path}"


@tool
async def fail(path: str) -> str:
    """Fail."""
    raise ValueError(f"no {path}")


@tool
async def crash(path: str) -> str:
    """Die with the process, the first time."""
    _die_once(path)
    return "survived"


def _die_once(path: str) -> None:
    mark = Path(path)
    if not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)


SCRIPT = [
    {"tool_calls": [{"id": "c1", "name": "size", "args": {"path": "secret.txt"}}]},
    {"tool_calls": [{"id": "c2", "name": "delete", "args": {"path": "secret.txt"}}]},
    {"content": "done"},
]


def _client() -> object:
    url = os.environ.get("TRACED_MODEL")
    return ScriptedChatClient(SCRIPT) if url is None else OpenAIChatClient("test-key", url, retries=0)


worker = ReActAgent(
    client=_client(),  # type: ignore[arg-type]
    model_name="test-model",
    name="tracer",
    tools=[size, delete],
)


async def ask(message: ChatMessage, state: list[ChatMessage]) -> tuple[ChatMessage, list[ChatMessage]]:
    """Asks between two of its own spans, which a replay begins and ends again."""
    with tracer.start_as_current_span("before"):
        logger.warning("before the question")
        await look_up("a")
    with tracer.start_as_current_span("around"):
        answer = await hitl.interrupt({"type": "color", "prompt": "Which?"})
        logger.warning("after the question")
    reply = ChatMessage.assistant_message(content=str(answer))
    return reply, [*state, message, reply]


async def call(message: ChatMessage, state: list[ChatMessage]) -> tuple[ChatMessage, list[ChatMessage]]:
    """Calls the tool that the message names."""
    name, _, path = (message.content or "").partition(" ")
    script = [{"tool_calls": [{"id": "c1", "name": name, "args": {"path": path}}]}, {"content": "done"}]
    caller = ReActAgent(client=ScriptedChatClient(script), model_name="scripted", name="caller", tools=[fail, crash])
    return await caller.run_turn(message, [])


@hitl.step()
async def sleep() -> None:
    await asyncio.sleep(600)


async def hang(message: ChatMessage, state: list[ChatMessage]) -> tuple[ChatMessage, list[ChatMessage]]:
    """Works until it is cancelled."""
    await look_up("a")
    with tracer.start_as_current_span("between"):
        pass
    await sleep()
    raise AssertionError("nobody has cancelled it")


@hitl.step()
async def die_once(path: str) -> None:
    _die_once(path)


async def die(message: ChatMessage, state: list[ChatMessage]) -> tuple[ChatMessage, list[ChatMessage]]:
    """Ends a span of its own between two steps, and dies in the second of them."""
    await look_up("a")
    with tracer.start_as_current_span("between"):
        pass
    await die_once((message.content or "").partition(" ")[2])
    reply = ChatMessage.assistant_message(content="survived")
    return reply, [*state, message, reply]


_OTHERS = {"ask": ask, "hang": hang, "die": die, "fail": call, "crash": call}


class Dispatcher:
    """Whoever the message names; `worker` where it names nobody."""

    name = "tracer"

    async def run_turn(self, message: ChatMessage, state: list[ChatMessage]) -> tuple[ChatMessage, list[ChatMessage]]:
        named = (message.content or "").partition(" ")[0]
        if named in _OTHERS:
            return await _OTHERS[named](message, state)
        return await worker.run_turn(message, state)


agent = Dispatcher()
