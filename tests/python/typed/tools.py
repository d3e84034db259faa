"""Tools, their policies, and the gate for loops of one's own."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, assert_type

import hitl
from hitl import (
    Approval,
    ApprovalMismatch,
    ApprovalRequest,
    Attachment,
    ChatMessage,
    Decision,
    InvalidArguments,
    RunContext,
    Tool,
    ToolRejected,
    approval,
    ask_user_question,
    requires_approval,
    tool,
)


@dataclass
class Account:
    owner: str
    limit: int


@tool
def add(left: int, right: int = 0) -> int:
    return left + right


@tool(requires_approval=True, allowed_decisions=["approve", "reject"], approvers=["group:ops"], once=True, timeout=5)
async def delete_file(path: str) -> str:
    return path


assert_type(add(1, right=2), int)
assert_type(delete_file.name, str)


def from_a_thread() -> None:
    assert_type(pay(3, ctx=RunContext(Account("me", 5))), bool)


async def from_python() -> None:
    assert_type(await delete_file("/tmp/x"), str)
    assert_type(await delete_file.call("/tmp/x"), str)
    assert_type(await add.call(1), int)
    await delete_file(3)  # pyright: ignore[reportArgumentType]
    await delete_file.call(file="x")  # pyright: ignore[reportCallIssue]
    try:
        add("1")  # pyright: ignore[reportArgumentType]
    except InvalidArguments as error:
        print(error)
    except ToolRejected as error:
        print(error)


# -- the run that a call is part of -----------------------------------------------------------------------------------


@tool
def whoami(ctx: RunContext) -> str:
    """Without an argument the context may be anything."""
    assert_type(ctx.context, Any)
    assert_type(ctx.session_id, str | None)
    assert_type(ctx.idempotency_key, str | None)
    return str(ctx.context["user"])


@tool
def spend(cents: int, ctx: RunContext[Account]) -> bool:
    assert_type(ctx.context, Account)
    return cents < ctx.context.limit


@tool
def spend_perhaps(cents: int, ctx: RunContext[Account | None]) -> bool:
    print(ctx.context.limit)  # pyright: ignore[reportOptionalMemberAccess]
    return ctx.context is not None and cents < ctx.context.limit


def is_costly(ctx: RunContext, args: dict[str, Any]) -> bool:
    return bool(args["cents"] > 100)


async def is_costly_for(ctx: RunContext[Account], args: dict[str, Any]) -> bool:
    return bool(args["cents"] > ctx.context.limit)


def describe(ctx: RunContext, args: dict[str, Any]) -> str:
    return f"{args['cents']} of {ctx.agent}"


def decide(asked: ApprovalRequest) -> Decision | None:
    if asked.tool_args["cents"] < 10:
        return Decision.approve(always=True)
    if asked.context is None:
        return Decision.reject(reason="nobody's")
    return None


async def decide_later(asked: ApprovalRequest) -> Decision | None:
    return Decision.edit({"cents": 1}) if asked.agent else Decision.respond("later")


pay = tool(spend, requires_approval=is_costly, approval_description=describe, on_approval=decide)
tool(spend, requires_approval=is_costly_for, on_approval=decide_later, description="Pays.")
tool(spend, requires_approval=lambda ctx, args: args["cents"] > 5)


def wrong_options() -> None:
    async def texts(ctx: RunContext, args: dict[str, Any]) -> str:
        return "yes"

    def yes(asked: ApprovalRequest) -> bool:
        return True

    tool(spend, requires_approval="yes")  # pyright: ignore[reportArgumentType, reportCallIssue]
    tool(spend, requires_approval=texts)  # pyright: ignore[reportArgumentType, reportCallIssue]
    tool(spend, on_approval=yes)  # pyright: ignore[reportArgumentType, reportCallIssue]
    tool(spend, allowed_decisions=["approve", "perhaps"])  # pyright: ignore[reportArgumentType, reportCallIssue]
    tool(spend, needs_approval=True)  # pyright: ignore[reportCallIssue]
    Decision.edit("cents=3")  # pyright: ignore[reportArgumentType]


class Desk:
    """Methods keep their parameters."""

    @tool(description="Files a note.")
    def file(self, note: str, copies: int = 1) -> int:
        return copies

    @tool
    async def read(self, note: str) -> bytes:
        return note.encode()


async def at_the_desk(desk: Desk) -> None:
    assert_type(desk.file("a", copies=2), int)
    assert_type(await desk.read("a"), bytes)
    assert_type(await desk.read.call("a"), bytes)
    assert_type(desk.file.requires_approval is False, bool)
    desk.file(1)  # pyright: ignore[reportArgumentType]


def tools() -> list[Tool]:
    kept: Tool = delete_file
    print(kept.name)
    return [add, delete_file, whoami, pay, ask_user_question, Desk().file]


# -- images and files -------------------------------------------------------------------------------------------------


@tool
async def compare(ctx: RunContext) -> list[str | Attachment]:
    assert_type(ctx.attachments, list[Attachment])
    assert_type(ctx.conversation[-1].attachments, list[Attachment] | None)
    newest = ctx.attachments[-1]
    assert_type(newest.to_bytes(), bytes | None)
    return [f"The newest is {newest.described}.", newest]


def with_a_file() -> ChatMessage:
    chart = Attachment.of_bytes(b"", "image/png", name="chart.png")
    Attachment("image/png", content="")  # pyright: ignore[reportCallIssue]
    return ChatMessage.user_message("Look", attachments=[chart, Attachment.of_file("a.pdf")])


# -- the gate without our agent ---------------------------------------------------------------------------------------


@requires_approval
async def transfer(cents: int, to: str = "me") -> str:
    return f"{cents} to {to}"


@hitl.requires_approval(description="Empties a mailbox.", on_approval=decide)
def empty(mailbox: str) -> int:
    return len(mailbox)


async def gated() -> None:
    assert_type(await transfer(5, to="you"), str)
    assert_type(await transfer.call(5), str)
    assert_type(await empty.call("inbox"), int)
    assert_type(empty("inbox"), int)
    function: Callable[[int, str], Coroutine[Any, Any, str]] = transfer
    await function(3, "you")
    await transfer("5")  # pyright: ignore[reportArgumentType]
    await empty.call(inbox="a")  # pyright: ignore[reportCallIssue]
    requires_approval(desc="Empties.")  # pyright: ignore[reportCallIssue]


async def by_hand() -> object:
    try:
        approved = await approval("transfer", {"cents": 5}, description="5 cents", key="pay", expires_in=60)
    except ApprovalMismatch as error:
        return error.args
    assert_type(approved, Approval)
    if approved.responded:
        return approved.response
    assert_type(approved.args, dict[str, Any])
    return await transfer(**approved.args)


def by_hand_in_a_thread() -> Approval:
    return approval.sync("transfer", {"cents": 5}, allowed_decisions=["approve", "respond"])
