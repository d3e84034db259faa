"""Agents of the OpenAI Agents SDK whose models say what a test wants, and runs that every prefix of their journal leads
to."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from agents import Agent, Model, ModelResponse, Usage, function_tool
from agents.testing import assistant_message, function_call
from openai.types.responses import ResponseCompletedEvent, ResponseTextDeltaEvent
from openai.types.responses.response import Response

from tests.python.support.prefixes import Effects, Run, run_all_prefixes

Calls = Sequence[tuple[str, dict[str, Any]] | Any]
APPROVE = {"type": "approve"}


class Says(Model):
    """A model that has each round of calls made, and then repeats what came of them, or says its last words."""

    def __init__(self, *rounds: Calls, last: str | None = None, seen: list[Any] | None = None) -> None:
        self.rounds = rounds
        self.last = last
        self.seen: list[Any] = [] if seen is None else seen

    async def get_response(
        self, system_instructions: str | None, input: str | list[Any], *asked: Any, **more: Any
    ) -> ModelResponse:
        items = [{"role": "user", "content": input}] if isinstance(input, str) else list(input)
        self.seen.append(items)
        begin = max(n for n, item in enumerate(items) if item.get("role") == "user" and not note_of(item))
        own = {each[0] if isinstance(each, tuple) else each.name for calls in self.rounds for each in calls}
        made = [item for item in items[begin:] if item.get("name") in own]
        done = 0
        for each in self.rounds:
            if len(made) < len(each):
                break
            made, done = made[len(each) :], done + 1
        usage = Usage(requests=1, input_tokens=3, output_tokens=4, total_tokens=7)
        if done < len(self.rounds):
            output = [
                function_call(*each, call_id=f"{each[0]}-{begin}-{done}-{n}") if isinstance(each, tuple) else each
                for n, each in enumerate(self.rounds[done])
            ]
            return ModelResponse(output=output, usage=usage, response_id=None)
        said = {item["call_id"]: item["output"] for item in items[begin:] if "output" in item}
        calls = [item["call_id"] for item in items[begin:] if item.get("type") == "function_call"]
        text = json.dumps([said[call] for call in calls]) if self.last is None else self.last
        return ModelResponse(output=[assistant_message(text)], usage=usage, response_id=None)

    def stream_response(self, *asked: Any, **more: Any) -> Any:
        raise NotImplementedError


class Once(Says):
    """Has one call made, of whatever kind, and repeats what came of it."""

    def __init__(self, call: Any) -> None:
        super().__init__()
        self.call = call

    async def get_response(self, system_instructions: Any, input: Any, *asked: Any, **more: Any) -> Any:
        outputs = [item["output"] for item in input if isinstance(item, dict) and "output" in item]
        output = [assistant_message(str(outputs[0]))] if outputs else [self.call]
        return ModelResponse(output=output, usage=Usage(requests=1), response_id=None)


class Streams(Says):
    """The same, word by word."""

    async def stream_response(self, *asked: Any, **more: Any) -> AsyncIterator[Any]:
        response = await self.get_response(*asked, **more)
        for item in response.output:
            for part in getattr(item, "content", ()):
                for n, word in enumerate(part.text.split(" ")):
                    delta = word if n == 0 else f" {word}"
                    yield ResponseTextDeltaEvent(
                        type="response.output_text.delta",
                        item_id="m",
                        content_index=0,
                        output_index=0,
                        delta=delta,
                        logprobs=[],
                        sequence_number=n,
                    )
        whole = Response.model_construct(id="r", output=response.output, usage=None)
        yield ResponseCompletedEvent.model_construct(type="response.completed", sequence_number=9, response=whole)


def note_of(item: Any) -> bool:
    """Whether the model is told that a person changed a call."""
    return str(item.get("content", "")).startswith("[A person changed")


async def proved(
    make: Callable[[Effects], Any], answers: Callable[[Any], Any] | None = None, **more: Any
) -> tuple[Run, Any]:
    """A run, which every prefix of its journal leads to as well; and what the model said last, as JSON."""
    run = await run_all_prefixes(make, answers, **more)
    return run, json.loads(run.response.content or "null")


def payer(effects: Effects, *rounds: Calls, **options: Any) -> Agent[Any]:
    """An agent that pays, once it may."""

    @function_tool(needs_approval=True)
    def pay(cents: int) -> str:
        effects.append(cents)
        return f"paid {cents}"

    options = {"name": "payer", "model": Says(*(rounds or ([("pay", {"cents": 5})],))), **options}
    tools = [pay, *options.pop("tools", [])]
    return Agent(tools=tools, **options)
