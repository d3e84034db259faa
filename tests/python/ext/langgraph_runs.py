"""Graphs whose models say what a test wants, and runs that every prefix of their journal leads to."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from hitl import ChatMessage
from hitl.ext.langgraph import as_agent
from tests.python.support.prefixes import Effects, Run, run_all_prefixes

Calls = list[tuple[str, dict[str, Any]]]
APPROVE = {"type": "approve"}


class Says(BaseChatModel):
    """A model that has each round of calls made, and then says its last words, or repeats what came of them."""

    rounds: list[Calls]
    last: str | None = None

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **options: Any) -> ChatResult:
        done = sum(isinstance(message, AIMessage) for message in messages)
        if done < len(self.rounds):
            calls = [
                {"name": name, "args": args, "id": f"c{done}{n}"} for n, (name, args) in enumerate(self.rounds[done])
            ]
            message = AIMessage("", tool_calls=calls)
        elif self.last is not None:
            message = AIMessage(self.last)
        else:
            results = [message for message in messages if isinstance(message, ToolMessage)]
            said = sorted((each.tool_call_id, each.status, str(each.text)) for each in results)
            message = AIMessage(json.dumps([each[1:] for each in said]))
        message.usage_metadata = {"input_tokens": len(messages), "output_tokens": 1, "total_tokens": len(messages) + 1}
        return ChatResult(generations=[ChatGeneration(message=message)])


def says(*rounds: Calls, last: str | None = None) -> Says:
    return Says(rounds=list(rounds), last=last)


class Timeless:
    """A graph whose checkpoints, which say when they were made, are left out of what it leaves to the next turn."""

    def __init__(self, graph: Any, **options: Any) -> None:
        self._served = as_agent(graph, **options)
        self.name = self._served.name

    async def run_turn(self, message: ChatMessage, state: list[ChatMessage]) -> Any:
        reply, after = await self._served.run_turn(message, state)
        kept, *messages = (reply.user_params or {})["native"]["messages"]
        kept.pop("checkpoints")
        for each in messages:  # LangChain names a model's messages by the run
            if each["type"] == "ai":
                each["data"].pop("id")
        return reply, after


class CurrentEffects(Effects):
    """The effects of the run that is under way."""

    effects: Effects

    def append(self, effect: Any) -> None:
        self.effects.append(effect)


async def proved(
    make: Callable[[Effects], Any], answers: Callable[[Any], Any] | None = None, **more: Any
) -> tuple[Run, Any]:
    """A run, which every prefix of its journal leads to as well; and what the model was told of its calls. The graph is
    made once: that takes longer than to run it."""
    current = CurrentEffects()
    graph = Timeless(make(current))

    def with_effects(effects: Effects) -> Timeless:
        current.effects = effects
        return graph

    run = await run_all_prefixes(with_effects, answers, **more)
    return run, json.loads(run.response.content or "null")
