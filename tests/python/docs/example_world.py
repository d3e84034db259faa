"""What the examples of docstrings talk about, for type checkers; nothing of it ever runs."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from pydantic import BaseModel

from hitl import ReActAgent, tool
from hitl.middleware import ToolCallAgent
from hitl.planner import ModelRegistry, ReactPlanner, ToolContext


class Pool:
    async def fetchval(self, query: str) -> Any: ...


@asynccontextmanager
async def create_pool(address: str) -> AsyncGenerator[Pool, None]:
    yield Pool()


class Account(BaseModel):
    number: str


class Bank:
    async def pay(self, account: str, cents: int, *, key: str | None) -> str:
        raise NotImplementedError


class Line(BaseModel):
    text: str


class Done(BaseModel):
    ok: bool


@tool(requires_approval=True)
async def delete_file(path: str) -> str:
    """Delete a file."""
    return path


async def delete(path: str) -> str:
    return path


async def transfer(cents: int) -> str:
    return str(cents)


async def fetch_rows(since: str) -> list[int]:
    return [len(since)]


async def greet() -> str:
    return "hello"


async def write_line(args: Line, ctx: ToolContext) -> Done:
    return Done(ok=bool(args.text))


agent = ReActAgent(tools=[delete_file])
bank = Bank()
registry = ModelRegistry()
caller = ToolCallAgent()
made = ReactPlanner("gpt-4.1", [])
