"""The support agent of the OpenAI Agents SDK's guide to human-in-the-loop, served by hitl as it is.

    hitl serve examples.ext_openai_agents:agent

Try `cancel order 42`: the cancellation waits for somebody, and so does the mail about the refund; each is done as soon
as it is approved, in the inbox at http://127.0.0.1:8000 or in `hitl chat`. Kill the server with `kill -9` meanwhile:
the model is not asked again for what it has said, and the order is cancelled once.

With OPENAI_API_KEY set, and HITL_MODEL for another model than the SDK's own choice, a real model answers
(`pip install 'hitl-runtime[openai-agents]'`).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from agents import Agent, Model, ModelResponse, RunContextWrapper, Usage, function_tool, set_tracing_disabled
from agents.testing import assistant_message, function_call

OUTBOX = Path(os.environ.get("SUPPORT_OUTBOX", "support_outbox.txt"))
HAS_KEY = bool(os.environ.get("OPENAI_API_KEY"))
set_tracing_disabled(not HAS_KEY)


def note(line: str) -> None:
    """What is done stands in a file: it is there once."""
    with OUTBOX.open("a", encoding="utf-8") as outbox:
        outbox.write(f"{line}\n")


@function_tool(needs_approval=True)
async def cancel_order(order_id: int) -> str:
    """Cancel an order."""
    note(f"cancelled {order_id}")
    return f"Cancelled order {order_id}"


async def requires_review(_ctx: RunContextWrapper[Any], params: dict[str, Any], _call_id: str) -> bool:
    """Somebody looks at whatever is about money."""
    return "refund" in params.get("subject", "").lower()


@function_tool(needs_approval=requires_review)
async def send_email(subject: str, body: str) -> str:
    """Send a mail to the customer."""
    note(f"sent {subject}")
    return f"Sent '{subject}'"


class Offline(Model):
    """A model without a mind, for those who have no key: it has three calls made, and says what came of them."""

    async def get_response(
        self, system_instructions: str | None, input: str | list[Any], *asked: Any, **more: Any
    ) -> ModelResponse:
        items = [] if isinstance(input, str) else input
        begin = max((n for n, item in enumerate(items) if item.get("content", "").startswith("cancel")), default=0)
        results = [str(item["output"]) for item in items[begin:] if "output" in item]
        output = [assistant_message("\n".join(results))]
        if not results:
            mails = [{"subject": "Your order", "body": "It is cancelled."}, {"subject": "Your refund", "body": "Soon."}]
            output = [function_call("cancel_order", {"order_id": 42}, call_id=f"order-{begin}")]
            output += [function_call("send_email", mail, call_id=f"mail-{begin}-{n}") for n, mail in enumerate(mails)]
        return ModelResponse(output=output, usage=Usage(requests=1), response_id=None)

    def stream_response(self, *asked: Any, **more: Any) -> Any:
        raise NotImplementedError


agent = Agent(
    name="Support agent",
    instructions="Handle tickets and ask for approval when needed.",
    tools=[cancel_order, send_email],
    model=os.environ.get("HITL_MODEL") if HAS_KEY else Offline(),
)
