"""An agent that pays, over the client of the provider that the message names. For servers that are killed."""

from __future__ import annotations

import os
from pathlib import Path

from hitl import ChatMessage, ReActAgent, tool
from hitl.models import AnthropicChatClient, ChatClient, FallbackChatClient, OpenAIChatClient, OpenAIResponsesClient
from tests.python.support.model_server import API_KEY


@tool(requires_approval=True)
async def pay(cents: int) -> str:
    """Pay."""
    with Path(os.environ["LEDGER"]).open("a") as ledger:
        ledger.write(f"{cents}\n")
    return f"paid {cents}"


def address(provider: str) -> str:
    return os.environ.get(provider, "http://127.0.0.1:9/v1")


responses = OpenAIResponsesClient(API_KEY, address("RESPONSES"), retries=0)
anthropic = AnthropicChatClient(API_KEY, address("ANTHROPIC"), retries=0, parameters={"thinking": {"type": "adaptive"}})
CLIENTS: dict[str, ChatClient] = {
    "chat": OpenAIChatClient(API_KEY, address("CHAT"), retries=0),
    "responses": responses,
    "anthropic": anthropic,
    "fallback": FallbackChatClient([(responses, "first-model"), (anthropic, "second-model")], retries=0),
}
AGENTS = {
    name: ReActAgent(client=client, model_name="first-model", tools=[pay], system_prompt="Pay.")
    for name, client in CLIENTS.items()
}


class Providers:
    """Whoever the first message of the session names."""

    def prepare(self) -> None:
        for agent in AGENTS.values():
            agent.prepare()

    async def run_turn(self, message: ChatMessage, state: list[ChatMessage]) -> tuple[ChatMessage, list[ChatMessage]]:
        named = (state or [message])[0].content or ""
        return await AGENTS[named].run_turn(message, state)


agent = Providers()
