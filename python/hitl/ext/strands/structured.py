"""``agent.structured_output_async``, the older way to have an agent say a value: what its model replies is a step."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from typing import Any

from pydantic import BaseModel
from pydantic_core import to_jsonable_python
from strands.types._events import TypedEvent  # type: ignore[attr-defined]  # it has a public home in later releases alone

from hitl.ext.replies import RecordedReply
from hitl.ext.strands.messages import to_chat, usage_of
from hitl.ext.strands.steps import ask_model
from hitl.ext.strands.turns import InTurn
from hitl.ext.versions import reading
from hitl.journal import model_json
from hitl.messages import ChatMessage
from hitl.strict_json import sendable


class Structured:
    """An agent's model, which is asked for a value once in a turn; all else is the model's."""

    def __init__(self, agent: Any, in_turn: InTurn) -> None:
        self._agent = agent
        self._model = agent.model
        self._in_turn = in_turn

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    async def structured_output(
        self, output_model: type[BaseModel], prompt: Any, *args: Any, **kwargs: Any
    ) -> AsyncGenerator[dict[str, Any], None]:
        """The last event alone: the others are the callback handler's, who gets them when the model is asked."""
        in_turn = self._in_turn

        async def body() -> dict[str, Any]:
            event: Any = {}
            usage: dict[str, float] = {}
            async for event in self._model.structured_output(output_model, prompt, *args, **kwargs):
                if isinstance(event, TypedEvent):
                    event.prepare(invocation_state={})
                    if event.is_callback_event:
                        self._agent.callback_handler(**event.as_dict())
                if "stop" in event:
                    usage = usage_of(event["stop"][2])
            return _recorded(event["output"], usage)

        said = [each.to_dict() for each in to_chat(prompt)]
        reply = await ask_model(in_turn, self._model, body, {"messages": said, "output": output_model.__name__})
        native = reply["native"]
        if "json" in native:
            with reading("strands-agents"):
                yield {"output": output_model.model_validate_json(json.dumps(native["json"]))}
        else:
            yield {"output": native["output"]}


def _recorded(output: Any, usage: dict[str, float]) -> dict[str, Any]:
    """As a reply of the model's. The value is kept as JSON where that leads back to it, else as a step keeps it."""
    text = json.dumps(sendable(to_jsonable_python(output, fallback=repr)), ensure_ascii=False)
    written = model_json.of_model(output)
    native = {"output": output} if written is model_json.NONE else {"json": written}
    reply = RecordedReply(ChatMessage.assistant_message(content=text), usage).to_json()
    return {**reply, "native": native}
