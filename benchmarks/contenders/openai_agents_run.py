"""The OpenAI Agents SDK in process: its only pause is a tool that needs approval, so the second step is that tool.

The run's state is text that the program keeps as it likes: here a file, written and synced before the question counts
as asked. A scripted model calls the first tool, then the second one, then says that it is done.
"""

from __future__ import annotations

import json
import os
import uuid
from pathlib import Path
from typing import Any

from agents import Agent, Model, ModelResponse, Runner, RunState, Usage, function_tool, set_tracing_disabled
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from benchmarks.contenders.host import DONE, Asynchronous, directory, serve, work


class Scripted(Model):
    """Calls each tool once, then says that it is done."""

    async def get_response(self, system_instructions: Any, input: Any, *args: Any, **kwargs: Any) -> ModelResponse:
        results = 0 if isinstance(input, str) else sum(item.get("type") == "function_call_output" for item in input)
        reply: Any
        if results < 2:
            name = ("first", "second")[results]
            reply = ResponseFunctionToolCall(
                arguments=json.dumps({"number": results + 1}),
                call_id=f"call-{results}",
                name=name,
                type="function_call",
                id=f"item-{results}",
            )
        else:
            text = ResponseOutputText(text=DONE, type="output_text", annotations=[])
            reply = ResponseOutputMessage(
                id="message-1", content=[text], role="assistant", status="completed", type="message"
            )
        return ModelResponse(output=[reply], usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **kwargs: Any) -> Any:
        """Not part of the job."""
        raise RuntimeError("the job does not stream")


@function_tool
def first(number: int) -> int:
    """The step before the question."""
    return work(number)


@function_tool(needs_approval=True)
def second(number: int) -> int:
    """The step that needs a person."""
    return work(number)


class OpenAIAgentsRun(Asynchronous[Path]):
    """Each job goes on from the file that its state was written to."""

    settings = "durable at the pause only: the run's state, in a file with fsync; steps are not"
    packages = ("openai-agents",)

    def __init__(self) -> None:
        super().__init__()
        set_tracing_disabled(True)
        self._agent = Agent(name="agent", model=Scripted(), tools=[first, second])
        self._states = directory() / "states"
        self._states.mkdir()

    async def ask(self, session: None) -> Path:
        paused = await Runner.run(self._agent, "go")
        if not paused.interruptions:
            raise RuntimeError("the run did not pause")
        path = self._states / f"{uuid.uuid4()}.json"
        with path.open("w") as file:
            file.write(paused.to_state().to_string())
            file.flush()
            os.fsync(file.fileno())
        return path

    async def answer(self, asked: Path) -> str:
        state = await RunState.from_string(self._agent, asked.read_text())
        for interruption in state.get_interruptions():
            state.approve(interruption)
        ended = await Runner.run(self._agent, state)
        asked.unlink()
        return str(ended.final_output)


if __name__ == "__main__":
    serve(OpenAIAgentsRun)
