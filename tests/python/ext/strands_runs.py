"""Agents of Strands whose models say what a test wants, and runs that every prefix of their journal leads to."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

from strands import Agent, tool
from strands.models import Model
from strands.vended_interventions.hitl import HumanInTheLoop

from hitl import ChatMessage
from hitl.ext.strands import as_agent
from tests.python.support.prefixes import Effects, Run, run_all_prefixes

Calls = list[tuple[str, dict[str, Any]]]
APPROVE = {"type": "approve"}


class Speaking(Model):
    """A model that says what `reply` makes of the messages: text, or calls to be made. `again`: its messages use ids of
    calls again."""

    def __init__(self, reply: Callable[[list[Any]], str | Calls], ids: str = "c", again: bool = False) -> None:
        self.reply = reply
        self.ids = ids
        self.again = again

    def get_config(self) -> Any:
        return {"model_id": "speaking"}

    def update_config(self, **model_config: Any) -> None:
        raise NotImplementedError

    def structured_output(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    async def stream(self, messages: Any, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        said = self.reply(messages)
        done = "" if self.again else sum(message["role"] == "assistant" for message in messages)
        yield {"messageStart": {"role": "assistant"}}
        if isinstance(said, str):
            yield {"contentBlockStart": {"start": {}}}
            for word in said.splitlines(keepends=True):
                yield {"contentBlockDelta": {"delta": {"text": word}}}
            yield {"contentBlockStop": {}}
        else:
            for number, (name, args) in enumerate(said):
                use = {"name": name, "toolUseId": f"{self.ids}{done}{number}"}
                yield {"contentBlockStart": {"start": {"toolUse": use}}}
                yield {"contentBlockDelta": {"delta": {"toolUse": {"input": json.dumps(args)}}}}
                yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn" if isinstance(said, str) else "tool_use"}}
        yield {"metadata": {"usage": {"inputTokens": 3, "outputTokens": 2, "totalTokens": 5}, "metrics": {}}}


def says(*rounds: Calls, ids: str = "c", again: bool = False) -> Speaking:
    """A model that has each round of calls made, and then repeats what came of them: status and content of each."""

    def reply(messages: list[Any]) -> str | Calls:
        begin = max(n for n, message in enumerate(messages) if "text" in message["content"][0] and is_prompt(message))
        done = sum(message["role"] == "assistant" for message in messages[begin:])
        if done < len(rounds):
            return rounds[done]
        blocks = [block for message in messages[begin:] for block in message["content"] if "toolResult" in block]
        results = sorted((block["toolResult"] for block in blocks), key=lambda each: str(each["toolUseId"]))
        return json.dumps([[each["status"], *(_said(part) for part in each["content"])] for each in results])

    return Speaking(reply, ids, again)


def is_prompt(message: Any) -> bool:
    return bool(message["role"] == "user")


def _said(part: Any) -> Any:
    return part["text"] if "text" in part else part["json"]


class Timeless:
    """An agent whose messages do not say what differs from run to run: ids, and how long something took."""

    def __init__(self, agent: Any, approvals: Any = None) -> None:
        self._served = as_agent(agent, approvals=approvals)
        self.name = self._served.name

    async def run_turn(self, message: ChatMessage, state: list[ChatMessage]) -> Any:
        reply, after = await self._served.run_turn(message, state)
        for kept in (reply.user_params or {}).get("native", {}).get("messages", ()):
            kept.pop("tracking_id", None)
            kept.get("metadata", {}).pop("metrics", None)
        return reply, after


async def proved(
    make: Callable[[Effects], Any], answers: Callable[[Any], Any] | None = None, **more: Any
) -> tuple[Run, Any]:
    """A run, which every prefix of its journal leads to as well; and what the model was told of its calls."""
    run, said = await proved_text(make, answers, **more)
    return run, json.loads(said)


async def proved_text(
    make: Callable[[Effects], Any],
    answers: Callable[[Any], Any] | None = lambda asked: APPROVE,
    *,
    approvals: Any = None,
    **more: Any,
) -> tuple[Run, str]:
    """The same of a run whose reply is text."""
    run = await run_all_prefixes(lambda effects: Timeless(make(effects), approvals), answers, **more)
    return run, run.response.content or ""


def payer(effects: Effects, *rounds: Calls, **options: Any) -> Agent:
    """An agent that pays, once it may."""

    @tool
    def pay(cents: int) -> str:
        """Pay.

        Args:
            cents: how much.
        """
        effects.append(cents)
        return f"paid {cents}"

    model = says(*(rounds or ([("pay", {"cents": 5})],)))
    given: dict[str, Any] = {"model": model, "name": "payer", "interventions": [HumanInTheLoop()], "tools": [pay]}
    return Agent(**{**given, **options})
