"""What a tool call knows of the run it is part of, and the functions of an author that get it."""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from hitl.decisions import ApprovalRequest, Decision

if TYPE_CHECKING:
    # With a default, which checkers know and Python does not yet: `RunContext` is a whole type by itself.
    import typing_extensions

    from hitl.attachments import Attachment
    from hitl.messages import ChatMessage

    ContextT = typing_extensions.TypeVar("ContextT", default=Any)
    ResourcesT = typing_extensions.TypeVar("ResourcesT", default=Any)
else:
    ContextT = TypeVar("ContextT")
    ResourcesT = TypeVar("ResourcesT")

ApprovalPolicy = Callable[["RunContext[Any]", dict[str, Any]], bool | Awaitable[bool]]
"""`(ctx, args) -> bool`, plain or async."""
ApprovalDescription = Callable[["RunContext[Any]", dict[str, Any]], str | Awaitable[str]]
"""`(ctx, args) -> str`, plain or async."""
ApprovalCallback = Callable[[ApprovalRequest], Decision | Awaitable[Decision | None] | None]
"""`(ApprovalRequest) -> Decision | None`, plain or async."""

SystemPrompt = Callable[["RunContext[Any]"], str | Awaitable[str]]
"""`(ctx) -> str`, plain or async: the instructions of an agent for one turn."""


class Copies(Sequence["ChatMessage"]):
    """Messages that are copied once somebody looks at one: they are what the session stores, hardly any call asks for
    them, and a conversation may be long."""

    def __init__(self, originals: Sequence[ChatMessage]) -> None:
        self.originals = originals
        self._copies: tuple[ChatMessage, ...] | None = None

    def __len__(self) -> int:
        return len(self.originals)

    @overload
    def __getitem__(self, index: int) -> ChatMessage: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[ChatMessage, ...]: ...
    def __getitem__(self, index: int | slice) -> ChatMessage | tuple[ChatMessage, ...]:
        if self._copies is None:
            self._copies = copy.deepcopy(tuple(self.originals))
        return self._copies[index]


@dataclass(frozen=True)
class RunContext(Generic[ContextT, ResourcesT]):
    """What a tool call knows about the run it is part of.

    A tool gets it by annotating a parameter with `RunContext`; the model does not see that parameter.
    `RunContext[Account, Pool]` is one whose runs have an `Account`, and whose agent has a `Pool` as its resources.

    Example:
        @tool(once=False)
        async def pay(cents: int, ctx: RunContext[Account]) -> str:
            return await bank.pay(ctx.context.number, cents, key=ctx.idempotency_key)
    """

    context: ContextT = None  # type: ignore[assignment]  # whoever says what it is says that there is one
    """The object given to the run, or what `context_from` made; None where there is neither:
    `RunContext[Account | None]` says that it may be."""

    tool_call_id: str | None = None
    """The id the model gave the call; None for a call made from Python."""

    agent: str | None = None
    """Name of the agent whose model made the call."""

    session_id: str | None = None
    """The session, where there is one."""

    idempotency_key: str | None = None
    """The same in every re-run of this call and different for every other: hand it to the outside world, so that
    a request sent twice counts once. None where no tool is called: in a policy, a description, a history processor and
    a `system_prompt`."""

    resources: ResourcesT = field(default=None, repr=False)  # type: ignore[assignment]  # as for the context
    """What the agent's `resources` are (see `hitl.resources`), open; None where it has none.

    A tool that takes a `RunContext` has them opened, unless it says `RunContext[Account, None]`. A policy or a
    description has them only where its parameter is annotated so: most of them look at nothing but the arguments."""

    conversation: Sequence[ChatMessage] = field(default=(), repr=False, compare=False)
    """The conversation when the turn began, the message that it answers last. Its messages are copies: what is done to
    them changes nothing of the session."""

    @property
    def attachments(self) -> list[Attachment]:
        """The images and other files of the conversation when the turn began, those of its message last; one without
        bytes and of the type `application/octet-stream` where the `base64_image` of a message cannot be read.

        Example:
            @tool
            async def scan(name: str, ctx: RunContext) -> str:
                found = [each for each in ctx.attachments if each.name == name]
                return await ocr(found[-1].to_bytes()) if found else f"No file is called {name}."
        """
        messages = self.conversation
        if isinstance(messages, Copies):
            messages = messages.originals  # attachments cannot be changed
        return [attachment for message in messages for attachment in message.attached]

    if not TYPE_CHECKING:

        def __class_getitem__(cls, given: Any) -> Any:
            """`RunContext[Account]` too: Python before 3.13 knows no defaults."""
            return super().__class_getitem__(given if isinstance(given, tuple) else (given, Any))
