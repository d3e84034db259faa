"""A scene as a `ReActAgent`, which is what servers, runs and the middleware have in common."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from hitl import ReActAgent, RunContext, Tool, interrupt, tool
from hitl.testing import ScriptedChatClient
from tests.python.behaviours.ledger import Ledger
from tests.python.behaviours.scenes import Scene, effects, policies


def native_agent(scene: Scene, ledger: Ledger, name: str = "shop") -> tuple[ReActAgent, ScriptedChatClient]:
    """The agent of a scene, and the client that its model's requests can be read from."""
    client = ScriptedChatClient(scene.script)
    functions = effects(ledger)
    tools: list[Any] = [gated(scene, ledger, functions[name]) for name in scene.gated]
    tools += free_tools(scene, functions)
    for inner_name, inner in scene.inner.items():
        inner_agent, _ = native_agent(inner, ledger, inner_name)
        tools.append(inner_agent.as_tool(requires_approval=scene.approve_inner))
    return ReActAgent(client=client, model_name="scripted", name=name, tools=tools), client


def gated(scene: Scene, ledger: Ledger, function: Callable[..., Any]) -> Tool[..., Any]:
    """A tool that a person must approve, always or by the scene's policy."""
    needs: Any = True
    if scene.policy is not None:
        policy = policies(ledger)[scene.policy]

        async def needs(context: RunContext[Any], args: dict[str, Any]) -> bool:
            return await policy(args)

    return tool(function, requires_approval=needs, allowed_decisions=scene.allowed)


def free_tools(scene: Scene, functions: dict[str, Callable[..., Any]]) -> list[Tool[..., Any]]:
    """Tools that need no approval, those that ask something themselves among them."""
    known = functions | {function.__name__: function for function in (ask, survey, first_answer, whose)}
    return [tool(known[name]) for name in scene.free]


async def ask(question: str) -> str:
    """Ask a person; the answer as JSON."""
    return json.dumps(await interrupt({"type": "question", "question": question}, metadata={"risk": "high"}))


async def survey(questions: list[str]) -> str:
    """Ask one question after the other; the answers as JSON."""
    return json.dumps([await interrupt({"type": "question", "question": question}) for question in questions])


async def first_answer(questions: list[str]) -> str:
    """Ask at once; the first answer counts, the other questions are given up."""
    asked = [asyncio.ensure_future(interrupt({"type": "question", "question": question})) for question in questions]
    done, pending = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()
    await asyncio.gather(*pending, return_exceptions=True)
    return json.dumps(done.pop().result())


async def whose(context: RunContext[Any]) -> str:
    """What the run's context says."""
    return json.dumps(context.context)


def rejection(tool: str, *, reason: str | None = None, message: str | None = None) -> str:
    """What the model is told of a rejected call, in every vocabulary that has our decisions."""
    text = message or f"User rejected {tool}" + (f": {reason}" if reason else "")
    return json.dumps({"error": text}, ensure_ascii=False)


def without_system(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A request's messages as the conversation has them."""
    return [message for message in messages if message["role"] != "system"]


def last_request(client: ScriptedChatClient) -> list[dict[str, Any]]:
    """What the model was sent last."""
    return without_system(client.requests[-1]["messages"])
