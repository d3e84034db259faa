"""The bank support agent of pydantic-ai's documentation, served by hitl as it is.

    hitl serve examples.ext_pydantic_ai:support_agent

Try `block my card`: the call waits for somebody, in the inbox at http://127.0.0.1:8000 or in `hitl chat`. Kill the
server with `kill -9` meanwhile: what was looked up is not looked up again, and the card is blocked once.

With OPENAI_API_KEY set, and HITL_MODEL for another model than the one below, a real model answers
(`pip install 'hitl-runtime[pydantic-ai]' openai`).
"""

from __future__ import annotations

import os
from pathlib import Path

from pydantic_ai import Agent, ModelMessage, ModelResponse, ModelRetry, TextPart, ToolCallPart
from pydantic_ai.messages import ToolReturnPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

BALANCES = {"checking": "123.45 USD", "savings": "9,000.00 USD"}
BLOCKED = Path(os.environ.get("BLOCKED_CARDS", "blocked_cards.txt"))


def offline(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """A model without a mind, for those who have no key: it looks up the balance, or blocks the card."""
    begin = max(n for n, each in enumerate(messages) if any(isinstance(part, UserPromptPart) for part in each.parts))
    prompt = next(str(part.content) for part in messages[begin].parts if isinstance(part, UserPromptPart))
    returned = [part for each in messages[begin:] for part in each.parts if isinstance(part, ToolReturnPart)]
    if not returned:
        calls = [ToolCallPart("customer_balance", {"account": "checking"})]
        if "block" in prompt:
            calls.append(ToolCallPart("block_card", {"card": "4242", "reason": "the customer asks for it"}))
        return ModelResponse(parts=calls)
    return ModelResponse(parts=[TextPart("\n".join(part.model_response_str() for part in returned))])


support_agent = Agent(
    f"openai:{os.environ.get('HITL_MODEL', 'gpt-5-mini')}"
    if os.environ.get("OPENAI_API_KEY")
    else FunctionModel(offline),
    name="support",
    instructions="You are a support agent in our bank. Look up the balance before you do anything else.",
)


@support_agent.tool_plain
async def customer_balance(account: str) -> str:
    """The balance of one of the customer's accounts.

    Args:
        account: checking or savings.
    """
    if account not in BALANCES:
        raise ModelRetry(f"there is no account {account!r}, only {' and '.join(BALANCES)}")
    return f"The balance of {account} is {BALANCES[account]}."


@support_agent.tool_plain(requires_approval=True, metadata={"hitl": {"description": "A blocked card stays blocked."}})
def block_card(card: str, reason: str) -> str:
    """Block a card for good.

    Args:
        card: its last four digits.
        reason: why, for the customer's file.
    """
    with BLOCKED.open("a", encoding="utf-8") as blocked:
        blocked.write(f"{card}: {reason}\n")
    return f"Card {card} is blocked."
