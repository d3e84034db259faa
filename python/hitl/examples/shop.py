"""A database in the tools of an agent: opened in each worker, and a context made of who sent the message.

    hitl serve hitl.examples.shop:agent
    curl -d '{"role": "user", "content": "refund A-1", "user_params": {"customer": "ada"}}' \
        -H 'Content-Type: application/json' http://127.0.0.1:8000/sessions/SESSION/messages

`SHOP_DB` says where the file is. The model is a few lines of Python, as there is nothing to be clever about.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sqlite3
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Annotated, Any

import hitl
from hitl import ChatMessage, ReActAgent, RunContext, TurnRequest, tool
from hitl.models import ModelReply, ModelRequest


class Database:
    """Connections to one file, each used by one statement at a time: what a pool of asyncpg is for PostgreSQL."""

    def __init__(self, path: str, size: int = 2) -> None:
        self._free: asyncio.Queue[sqlite3.Connection] = asyncio.Queue()
        for _ in range(size):
            self._free.put_nowait(sqlite3.connect(path, check_same_thread=False, isolation_level=None))

    async def run(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Run one statement, and all of its rows."""
        connection = await self._free.get()
        try:
            return await asyncio.to_thread(lambda: connection.execute(statement, values).fetchall())
        finally:
            self._free.put_nowait(connection)

    def close(self) -> None:
        """Close all connections."""
        while not self._free.empty():
            self._free.get_nowait().close()


@hitl.resources
async def database() -> AsyncIterator[Database]:
    """Opened when the first tool of a process needs it."""
    opened = Database(os.environ.get("SHOP_DB", "shop.db"))
    try:
        await opened.run(
            "create table if not exists orders (number text primary key, customer text, cents int, refunded int)"
        )
        await opened.run("insert or ignore into orders values ('A-1', 'ada', 900, 0), ('B-2', 'bob', 500, 0)")
        yield opened
    finally:
        opened.close()


@dataclass(frozen=True)
class Customer:
    """Whom a turn is for; stored in its journal."""

    name: str


def customer(request: TurnRequest) -> Customer:
    """`user_params` are whatever was sent: a program in front of the server has to set them. Who talks to it in a chat,
    where nobody does, is ada."""
    return Customer(str(request.user_params.get("customer", "ada")))


@tool
async def orders(ctx: RunContext[Customer, Database]) -> list[dict[str, Any]]:
    """List the customer's orders."""
    rows = await ctx.resources.run(
        "select number, cents from orders where customer = ? and not refunded", ctx.context.name
    )
    return [{"number": number, "cents": cents} for number, cents in rows]


@tool(requires_approval=True)
async def refund(number: str, ctx: RunContext[Customer, None], shop: Annotated[Database, hitl.Resource]) -> str:
    """Give the money for an order back."""
    rows = await shop.run(
        "update orders set refunded = 1 where number = ? and customer = ? and not refunded returning cents",
        number,
        ctx.context.name,
    )
    return f"refunded {rows[0][0]} cents" if rows else f"{ctx.context.name} has no open order {number}"


def _listed(orders: str) -> str:
    numbers = [order["number"] for order in json.loads(orders)]
    return f'Your orders: {", ".join(numbers)}. Say "refund {numbers[0]}".' if numbers else "You have no open order."


class Clerk:
    """A model without a mind: it refunds the order that the message names, and else lists what there is."""

    async def complete(self, request: ModelRequest) -> ModelReply:
        """See `hitl.models.ChatClient`."""
        last = request.messages[-1]
        if last.role == "tool":
            said = last.content if last.name == "refund" else _listed(last.content or "[]")
            return ModelReply(ChatMessage.assistant_message(content=said), finish_reason="stop")
        found = re.search(r"refund (\S+)", last.content or "")
        name, arguments = ("refund", {"number": found[1]}) if found else ("orders", {})
        call = {"name": name, "arguments": json.dumps(arguments)}
        calls = [{"id": f"call_{len(request.messages)}", "type": "function", "function": call}]
        return ModelReply(ChatMessage.assistant_message(tool_calls=calls), finish_reason="tool_calls")


agent = ReActAgent(
    name="clerk",
    client=Clerk(),
    model_name="none",
    tools=[orders, refund],
    resources=database,
    context_from=customer,
)
