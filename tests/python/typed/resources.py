"""Resources: what is opened, who gets it, and the context that is made of a request."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Annotated, Any, assert_type

import hitl
from hitl import (
    ChatMessage,
    NoSuchResource,
    ReActAgent,
    Resource,
    Resources,
    ResourceUnavailable,
    RunContext,
    Server,
    TurnRequest,
    resources,
    tool,
)


@dataclass
class Pool:
    name: str


@dataclass
class Account:
    owner: str


@resources
async def database() -> AsyncIterator[Pool]:
    yield Pool("one")


@resources(name="the other", timeout=5)
async def other() -> AsyncIterator[Pool]:
    yield Pool("other")


def create_pool() -> AbstractAsyncContextManager[Pool]:
    return database()


assert_type(database, Resources[Pool])
assert_type(other, Resources[Pool])
assert_type(resources(create_pool), Resources[Pool])


@tool
async def marked(word: str, pool: Annotated[Pool, Resource]) -> str:
    assert_type(pool, Pool)
    return word + pool.name


@tool
def by_context(ctx: RunContext[Account, Pool]) -> str:
    assert_type(ctx.context, Account)
    assert_type(ctx.resources, Pool)
    return ctx.resources.name


@tool
def by_any_context(ctx: RunContext) -> None:
    assert_type(ctx.resources, Any)


@tool
def without(ctx: RunContext[Account, None]) -> None:
    assert_type(ctx.resources, None)


def account(request: TurnRequest) -> Account:
    assert_type(request.message, ChatMessage)
    assert_type(request.session_id, str | None)
    assert_type(request.user_params, dict[str, Any])
    return Account(request.user_params["owner"])


async def account_later(request: TurnRequest) -> Account:
    return account(request)


agent = ReActAgent(tools=[marked, by_context], resources=database, context_from=account)
ReActAgent(resources=database, context_from=account_later)


@hitl.agent(resources=other, context_from=account)
async def own(message: ChatMessage, state: list[ChatMessage]) -> tuple[ChatMessage, list[ChatMessage]]:
    return message, state


async def run() -> None:
    async with database() as pool:
        assert_type(pool, Pool)
        await hitl.run(agent, "go", resources=pool)
    await hitl.run(agent, "go", resources=other)
    await database.close()
    Server(own, resources=Pool("mine"), context_from=account, port=0)
    errors: list[type[Exception]] = [NoSuchResource, ResourceUnavailable]
    print(errors)


def wrong_on_purpose() -> None:
    ReActAgent(resources=Pool("open"))  # pyright: ignore[reportArgumentType]
    ReActAgent(context_from=Account("me"))  # pyright: ignore[reportArgumentType]
    resources(Pool)  # pyright: ignore[reportArgumentType, reportCallIssue]
