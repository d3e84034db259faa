"""`puppet`: a `ReActAgent` whose model calls the tools that the message lists, and then repeats what they returned."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from hitl import (
    ApprovalRequest,
    ChatMessage,
    Decision,
    ReActAgent,
    RunContext,
    ask_user_question,
    interrupt,
    tool,
)
from hitl.models.chat_client import ModelReply, ModelRequest


class PuppetModel:
    """A model without a mind: the user's message is `[[{"name", "args"}, ...], ...]`, one list for each reply."""

    def prepare(self) -> None:
        """Nothing to prepare."""

    async def complete(self, request: ModelRequest) -> ModelReply:
        last_user = max(index for index, message in enumerate(request.messages) if message.role == "user")
        since = request.messages[last_user + 1 :]
        rounds: list[list[dict[str, Any]]] = json.loads(request.messages[last_user].content or "[]")
        replied = sum(message.role == "assistant" for message in since)
        if replied < len(rounds):
            calls = [
                {
                    "id": call.get("id", f"call_{replied}_{position}"),
                    "type": "function",
                    "function": {"name": call["name"], "arguments": json.dumps(call.get("args", {}))},
                }
                for position, call in enumerate(rounds[replied])
            ]
            return ModelReply(ChatMessage.assistant_message(tool_calls=calls), finish_reason="tool_calls")
        text = json.dumps([message.content for message in since if message.role == "tool"])
        if request.on_delta is not None:
            for start in range(0, len(text), 8):
                request.on_delta({"content": text[start : start + 8]})
        return ModelReply(ChatMessage.assistant_message(content=text), finish_reason="stop")


@tool(requires_approval=True)
def delete_file(path: str) -> str:
    """Delete a file."""
    Path(path).unlink()
    return f"deleted {path}"


@tool(requires_approval=True)
async def charge(ledger: str, cents: int) -> str:
    """Charge a card; every charge is a line in the ledger."""
    with Path(ledger).open("a") as lines:
        lines.write(f"charged {cents}\n")
    return f"charged {cents}"


@tool
async def note(ledger: str, text: str) -> str:
    """Write a line; needs no approval."""
    with Path(ledger).open("a") as lines:
        lines.write(f"{text}\n")
    return text


@tool
async def environment_of_tool() -> dict[str, str]:
    """What a shell would see."""
    return dict(os.environ)


@tool
async def ask_three_times(ledger: str) -> str:
    """An effect, then three questions."""
    with Path(ledger).open("a") as lines:
        lines.write("started\n")
    answers = [await interrupt({"type": "question", "number": number}) for number in range(3)]
    return json.dumps(answers)


def _below_rewritten(path: str) -> dict[str, str]:
    return {"path": str(Path(path).parent / "rewritten" / Path(path).name)}


@tool(requires_approval=True, input_guardrails=[_below_rewritten])
def delete_rewritten(path: str) -> str:
    """Delete a file; a guardrail moves the path."""
    Path(path).unlink()
    return f"deleted {path}"


def _at_most_50(cents: int) -> dict[str, int] | None:
    return {"cents": 50} if cents > 50 else None


def _small_sums(request: ApprovalRequest) -> Decision | None:
    """Code decides about sums below 10, each in its way."""
    return {
        1: Decision.approve(),
        2: Decision.reject("too little"),
        3: Decision.respond({"paid": 0}),
        4: Decision.edit({**request.tool_args, "cents": 5}),
    }.get(request.tool_args["cents"])


def _describe_payment(ctx: RunContext[Any], args: dict[str, Any]) -> str:
    return f"Pay {args['cents']} cents."


@tool(
    requires_approval=True,
    allowed_decisions=["approve", "edit", "reject", "respond"],
    approval_description=_describe_payment,
    on_approval=_small_sums,
    input_guardrails=[_at_most_50],
)
async def pay(ledger: str, cents: int) -> str:
    """Pay something, at most 50 cents."""
    with Path(ledger).open("a") as lines:
        lines.write(f"paid {cents}\n")
    return f"paid {cents}"


puppet = ReActAgent(
    client=PuppetModel(),
    model_name="puppet",
    name="puppet",
    tools=[delete_file, charge, note, environment_of_tool, ask_three_times, delete_rewritten, ask_user_question, pay],
)
