"""An agent that pays, over the real `openai` package. For servers that are killed."""

from __future__ import annotations

import os
from pathlib import Path

from hitl import ReActAgent, tool
from hitl.models import OpenAIChatClient
from tests.python.support.chat_completions import API_KEY


@tool(requires_approval=True)
async def pay(cents: int) -> str:
    """Pay."""
    with Path(os.environ["LEDGER"]).open("a") as ledger:
        ledger.write(f"{cents}\n")
    return f"paid {cents}"


client = OpenAIChatClient(API_KEY, os.environ.get("PROVIDER", "http://127.0.0.1:9/v1"), retries=0)
agent = ReActAgent(client=client, model_name="test-model", tools=[pay])
