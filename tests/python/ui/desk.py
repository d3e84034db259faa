"""The agent behind the inbox in tests and pictures: a support desk whose model follows plans.

A message that is a plan's name begins it; a message that is JSON is a plan itself: `[[{"name", "args"}, ...], ...]`,
one list of tool calls for each reply of the model, and at its end what it says. A message that begins with `pause until
PATH: ` is answered in two halves, the second once there is a file at PATH. Until then one with `crash until PATH: `
takes the worker's process with it, one with `away until PATH: ` finds the model away, and with `loop until PATH: ` it
looks an order up again and again. One with `fail: ` is an error that says the rest.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, Field, field_validator

from hitl import Attachment, ChatMessage, ReActAgent, TransientError, ask_user_question, interrupt, tool
from hitl.models.chat_client import ModelReply, ModelRequest

Call = dict[str, Any]
Plan = list[list[Call]]

PAUSE = re.compile(r"pause until (?P<path>[^:]+): ")
CRASH = re.compile(r"crash until (?P<path>[^:]+): ")
AWAY = re.compile(r"away until (?P<path>[^:]+): ")
LOOP = re.compile(r"loop until (?P<path>[^:]+): ")
FAIL = "fail: "


def call(name: str, **args: Any) -> Call:
    return {"name": name, "args": args}


SHIPPING = {
    "question": "How should the replacement go out?",
    "header": "Shipping",
    "options": [
        {
            "label": "Standard",
            "description": "Free, arrives on Thursday",
            "markdown": "carrier   DHL\npickup    today 17:00\narrives   Thu 26 Nov\ncost      0.00 EUR",
        },
        {
            "label": "Express",
            "description": "We pay 14.90 EUR, arrives tomorrow",
            "markdown": "carrier   DHL Express\npickup    today 19:00\narrives   Mon 23 Nov\ncost      14.90 EUR",
        },
    ],
}
EXTRAS = {
    "question": "What goes into the parcel besides?",
    "header": "Extras",
    "multiSelect": True,
    "options": [
        {"label": "Return label", "description": "For the broken one"},
        {"label": "Voucher", "description": "10 EUR off the next order"},
        {"label": "Letter", "description": "An apology, signed"},
    ],
}

PLANS: dict[str, Plan] = {
    "Order 1042 arrived broken, I want my money back.": [
        [call("find_order", number=1042)],
        [call("refund", order=1042, cents=4990, reason="The cup arrived broken; the customer sent a picture.")],
    ],
    "Please send me a new one instead.": [[call("ask_user_question", questions=[SHIPPING, EXTRAS])]],
    "Tell the customer that it is on its way.": [
        [
            call(
                "send_mail",
                to="ada@example.org",
                subject="Your replacement is on its way",
                body="Dear Ada,\n\nyour new cup left our house today.\nIt arrives on Thursday.\n\nKind regards",
            )
        ]
    ],
    "I am very angry.": [[call("escalate", summary="Third broken cup in a row; wants to talk to a person.")]],
}

COMPLAINTS = {
    "My parcel came nine days late.": (1000, 1290, "Late by nine days."),
    "You sent me the wrong colour.": (1001, 1600, "Wrong colour."),
    "I was charged twice for one cup.": (1002, 1910, "Twice charged."),
    "The saucer never arrived.": (1010, 2490, "Never arrived."),
    "The parcel went back to you.": (1011, 2990, "The parcel came back."),
    "Half of the order was missing.": (1012, 3490, "Half of it was missing."),
}
"""What customers want money back for, with the refund that the model asks for: order, cents, reason."""
for said, (order, cents, reason) in COMPLAINTS.items():
    PLANS[said] = [[call("refund", order=order, cents=cents, reason=reason)]]

REPLIES = {
    "refund": "The refund is settled. **49.90 EUR** go back to the card ending in 4242.",
    "ask_user_question": "Noted, the parcel is being packed.",
    "send_mail": "The mail is out.",
    "escalate": "A colleague takes over.",
}


class DeskModel:
    """A model without a mind, which speaks word by word."""

    def prepare(self) -> None:
        """Nothing to prepare."""

    async def complete(self, request: ModelRequest) -> ModelReply:
        last_user = max(index for index, message in enumerate(request.messages) if message.role == "user")
        said = request.messages[last_user].content or ""
        since = request.messages[last_user + 1 :]
        if said.startswith(FAIL):
            raise RuntimeError(said.removeprefix(FAIL))
        if (crash := CRASH.match(said)) and not Path(crash["path"]).exists():
            os._exit(1)
        if (away := AWAY.match(said)) and not Path(away["path"]).exists():
            raise TransientError("the model is away", retry_after=0.001)
        plan: Plan = PLANS[said] if said in PLANS else json.loads(said) if said.startswith("[[") else []
        if (loop := LOOP.match(said)) and not Path(loop["path"]).exists():
            plan = [[call("find_order", number=1042)]] * len(request.messages)
        replied = sum(message.role == "assistant" for message in since)
        if replied < len(plan):
            calls = [
                {
                    "id": f"call_{len(request.messages)}_{position}",
                    "type": "function",
                    "function": {"name": one["name"], "arguments": json.dumps(one["args"])},
                }
                for position, one in enumerate(plan[replied])
            ]
            return ModelReply(ChatMessage.assistant_message(tool_calls=calls), finish_reason="tool_calls")
        results = [message.content or "" for message in since if message.role == "tool"]
        text = self._reply(said, plan, results)
        if request.on_delta is not None:
            words = text.split(" ")
            gate = PAUSE.match(said)
            for index, word in enumerate(words):
                while gate and index == len(words) // 2 and not Path(gate["path"]).exists():
                    await asyncio.sleep(0.01)
                request.on_delta({"content": f"{word} "})
                await asyncio.sleep(0)
        return ModelReply(ChatMessage.assistant_message(content=text), finish_reason="stop")

    @staticmethod
    def _reply(said: str, plan: Plan, results: list[str]) -> str:
        if said in PLANS and said not in COMPLAINTS and not any("rejected" in result for result in results):
            return REPLIES[plan[-1][-1]["name"]]
        return " ".join(results) if results else f"You said: {said}"


class Ticket(BaseModel):
    """Who takes over."""

    team: Literal["billing", "quality", "management"] = Field(description="Who calls the customer back")
    urgent: bool
    callback_minutes: int = Field(ge=5, le=480, description="At the latest, in minutes")
    note: str | None = Field(default=None, description="What the colleague should know")


@tool
async def find_order(number: int) -> dict[str, Any]:
    """Look an order up."""
    return {"number": number, "item": "Cup, blue", "cents": 4990, "customer": "Ada Lovelace"}


@tool
async def files_of(order: int, files: list[dict[str, str]]) -> list[str | Attachment]:
    """The files of an order, as the plan has them: `media_type`, `text`, `name`, and `data` instead of a text."""
    made = (
        Attachment(
            file["media_type"],
            data=file.get("data") or base64.b64encode(file["text"].encode()).decode(),
            name=file["name"],
        )
        for file in files
    )
    return [f"Files of {order}:", *made]


@tool(requires_approval=True)
async def refund(order: int, cents: int, reason: str) -> str:
    """Give money back.

    Args:
        order: The order's number.
        cents: How much, in cents.
        reason: What the books say.
    """
    return f"refunded {cents} cents of order {order}: {reason}"


@tool(requires_approval=True, allowed_decisions=["approve", "edit", "reject", "respond"])
async def send_mail(to: str, subject: str, body: str) -> str:
    """Send a mail to a customer."""
    return f"sent {subject!r} to {to}: {body}"


@tool(requires_approval=True)
async def set_shipping(address: dict[str, str], parcels: list[int], gift: bool = False, note: str | None = None) -> str:
    """Say where an order goes."""
    return f"ships to {json.dumps(address)} in {parcels}, gift={gift}, note={note}"


@tool(requires_approval=True, approvers=["group:finance", "carol"])
async def pay_invoice(number: int) -> str:
    """Pay a supplier."""
    return f"paid invoice {number}"


@tool
async def escalate(summary: str) -> str:
    """Hand the conversation to a person."""
    ticket = await interrupt(
        {"type": "escalation", "summary": summary},
        message="Who takes over?",
        response_schema=Ticket.model_json_schema(),
    )
    return f"handed to {json.dumps(ticket)}"


class Address(BaseModel):
    """Where a parcel goes."""

    street: str
    city: str

    @field_validator("city")
    @classmethod
    def is_there(cls, city: str) -> str:
        if city == "Nowhere":
            raise ValueError("nobody lives there")
        return city


@tool
async def ask_address() -> str:
    """Ask where to, and take no place that is none."""
    address = await interrupt({"type": "address", "prompt": "Where to?"}, response_schema=Address)
    return f"{address.street}, {address.city}"


@tool
async def ask_anything(
    payload: dict[str, Any], message: str | None = None, schema: dict[str, Any] | None = None
) -> str:
    """Ask whatever the plan says."""
    return json.dumps(await interrupt(payload, message=message, response_schema=schema))


desk = ReActAgent(
    client=DeskModel(),
    model_name="desk",
    name="support_desk",
    tools=[
        find_order,
        files_of,
        refund,
        send_mail,
        set_shipping,
        pay_invoice,
        escalate,
        ask_address,
        ask_anything,
        ask_user_question,
    ],
)
