"""The job of ``benchmarks.bench_runs`` in the OpenAI Agents SDK: its run state as a string.

Runs in an environment of its own; ``job.time_jobs`` says what is timed.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from agents import Agent, Model, ModelResponse, Runner, RunState, Usage, function_tool, set_tracing_disabled
from job import CALL_ARGS, DONE, TOOL, time_jobs
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText


class Scripted(Model):
    """Calls the tool, then says that it is done."""

    async def get_response(self, system_instructions: Any, input: Any, *args: Any, **kwargs: Any) -> ModelResponse:
        """The next reply."""
        answered = not isinstance(input, str) and any(item.get("type") == "function_call_output" for item in input)
        reply: Any
        if answered:
            text = ResponseOutputText(text=DONE, type="output_text", annotations=[])
            reply = ResponseOutputMessage(
                id="message-1", content=[text], role="assistant", status="completed", type="message"
            )
        else:
            reply = ResponseFunctionToolCall(
                arguments=json.dumps(CALL_ARGS), call_id="call-1", name=TOOL, type="function_call", id="item-1"
            )
        return ModelResponse(output=[reply], usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **kwargs: Any) -> Any:
        """Not part of the job."""
        raise RuntimeError("the job does not stream")


@function_tool(needs_approval=True)
def delete_file(path: str) -> str:
    """Delete a file."""
    return f"deleted {path}"


def main() -> None:
    """Run the job as often as asked."""
    set_tracing_disabled(True)
    agent = Agent(name="agent", model=Scripted(), tools=[delete_file])

    async def run() -> str:
        paused = await Runner.run(agent, "delete it")
        text = paused.to_state().to_string()
        state = await RunState.from_string(agent, text)
        for interruption in state.get_interruptions():
            state.approve(interruption)
        return str((await Runner.run(agent, state)).final_output)

    with asyncio.Runner() as runner:
        time_jobs(lambda number: runner.run(run()), int(sys.argv[1]))


if __name__ == "__main__":
    main()
