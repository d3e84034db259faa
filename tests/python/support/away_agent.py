"""An agent that pays once, then asks a model that is away while the file AWAY is there. For servers that are killed."""

from __future__ import annotations

import os
from pathlib import Path

from hitl import ReActAgent, TransientError, tool
from hitl.models import ModelReply, ModelRequest
from hitl.testing import ScriptedChatClient


class AwayClient(ScriptedChatClient):
    """Its model is away for the second request."""

    retries = int(os.environ.get("RETRIES", "0"))

    async def complete(self, request: ModelRequest) -> ModelReply:
        folder = Path(os.environ["FOLDER"])
        if (folder / "away").exists() and request.messages[-1].role == "tool":
            with (folder / "tries").open("a") as tries:
                tries.write("try\n")
            raise TransientError("the model is away", float(os.environ.get("PAUSE", "0.001")))
        return await super().complete(request)


@tool(requires_approval=True)
async def pay() -> str:
    """Pay."""
    with (Path(os.environ["FOLDER"]) / "paid").open("a") as paid:
        paid.write("paid\n")
    return "paid"


agent = ReActAgent(client=AwayClient([{"tool_calls": [{"name": "pay"}]}, {"content": "all paid"}]), tools=[pay])
