"""`event.interrupt(...)`: what a callback asks, and how the answer gets back to it.

A callback that needs a person raises `InterruptException`; when the answer is there it is called again from its top,
and the same call of `interrupt` returns. The question itself is a hitl interrupt of the step that the callback runs in.
"""

from __future__ import annotations

import copy
import json
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from typing import Any, Final, TypedDict, TypeVar

T = TypeVar("T")

PAYLOAD_TYPES: Final = ("hook_interrupt", "tool_interrupt")
"""Types of the hitl interrupts that stand behind those of this package."""


@dataclass
class Interrupt:
    """A question to a person."""

    id: str
    """The same in every re-run of its callback, and of no other: not in another turn, not for another call."""

    name: str
    """What the callback calls it."""

    reason: Any = None
    """What the callback says about it; any JSON value."""

    response: Any = None
    """What the person answered."""

    def to_dict(self) -> dict[str, Any]:
        """The four members as a dict."""
        return asdict(self)


class InterruptException(Exception):
    """A person is needed. `interrupt` is the question; whoever catches it must raise it again."""

    def __init__(self, interrupt: Interrupt) -> None:
        super().__init__(interrupt)
        self.interrupt = interrupt


class InterruptResponse(TypedDict):
    """An answer."""

    interruptId: str
    """`Interrupt.id`."""

    response: Any
    """Any JSON value; None is an answer too."""


class InterruptResponseContent(TypedDict):
    """An answer as `agent([...])` takes it."""

    interruptResponse: InterruptResponse


class Questions:
    """What the callbacks of one event, or one tool call, asked, and what was answered."""

    def __init__(self, key: str = "", prefix: str = "v1:before_tool_call") -> None:
        """`key` is of this event alone and the same in its re-runs; ids are made from it."""
        self._key = key
        self._prefix = prefix
        self._answers: dict[str, Any] = {}
        self._open: dict[str, Interrupt] = {}
        self._owners: dict[str, object] = {}
        self._asker: object = None
        self.failure: ValueError | None = None
        """A name that two callbacks use: raised to the callback, and kept, in case it is caught there."""

    def begin(self) -> None:
        """The callbacks are about to be called, all of them."""
        self._open, self._owners, self._asker = {}, {}, None

    def begin_callback(self, asker: object) -> None:
        """This one is about to be called."""
        self._asker = asker

    @property
    def open(self) -> list[Interrupt]:
        """What was asked since `begin` and has no answer."""
        return list(self._open.values())

    def has_raised(self, error: InterruptException) -> bool:
        """Whether it is a question of these callbacks, and not one that somebody made up."""
        return self._open.get(error.interrupt.name) is error.interrupt

    def ask(self, name: Any, reason: Any, response: Any, tool_use_id: str) -> Any:
        """The answer, or `InterruptException`."""
        if not isinstance(name, str) or not name:
            raise TypeError(f"interrupt() needs a name, a non-empty str, got {name!r}")
        if self._owners.setdefault(name, self._asker) is not self._asker:
            self.failure = ValueError(f"interrupt name {name!r} is used by several callbacks of one event")
            raise self.failure
        if name in self._answers:
            return copy.deepcopy(self._answers[name])
        if response is not None:
            return response
        asked = Interrupt(f"{self._prefix}:{tool_use_id}:{uuid.uuid5(_IDS, f'{self._key}/{name}')}", name, reason)
        self._open[name] = asked
        raise InterruptException(asked)

    async def answered(self, run: Callable[[], Awaitable[T]], type: str, tool_use: dict[str, Any]) -> T:
        """Call `run`, which calls every callback, until none of them asks anything any more."""
        import asyncio

        while True:
            self.begin()
            result = await run()
            if self.failure is not None:
                raise self.failure
            if not self._open:
                return result
            waiting = {name: _ask_person(asked, type, tool_use) for name, asked in self._open.items()}
            answers = await asyncio.gather(*waiting.values())
            self._answers.update(zip(waiting, answers, strict=True))


async def _ask_person(asked: Interrupt, type: str, tool_use: dict[str, Any]) -> Any:
    from hitl.interrupts import interrupt

    payload = {
        "type": type,
        "id": asked.id,
        "name": asked.name,
        "reason": asked.reason,
        "tool_name": tool_use["name"],
        "tool_args": tool_use["input"],
    }
    return await interrupt(payload, message=asked.reason if isinstance(asked.reason, str) else asked.name)


class Interruptible:
    """What an event and the context of a tool have in common: `interrupt`."""

    agent: Any
    tool_use: Any
    _questions: Questions

    def interrupt(self, name: str, reason: Any = None, response: Any = None) -> Any:
        """Ask a person; returns the answer once it is there.

        Args:
            name: What to call the question; no other callback of the event may call one so.
            reason: What the person is shown, any JSON value.
            response: The answer, where it is known beforehand; None is none.

        Raises:
            InterruptException: A person is needed. Let it pass: the callback is called again with the answer.
            ValueError: Another callback of this event uses the name.
            RuntimeError: The event has no agent.
        """
        if getattr(self, "agent", None) is None:
            raise RuntimeError("agent instance attribute not set")
        return self._questions.ask(name, reason, response, self.tool_use["toolUseId"])


def read_responses(contents: list[Any]) -> dict[str, Any]:
    """Interrupt id -> response; TypeError for something else than answers, ValueError for incomplete ones."""
    responses: dict[str, Any] = {}
    for content in contents:
        if not isinstance(content, dict) or set(content) != {"interruptResponse"}:
            raise TypeError(
                "an interrupted agent goes on with a list of "
                f'{{"interruptResponse": {{"interruptId": ..., "response": ...}}}}, got {content!r} in it'
            )
        given = content["interruptResponse"]
        if not isinstance(given, dict):
            raise TypeError(f"interruptResponse must be a dict, got {type(given).__name__}")
        for member in ("interruptId", "response"):
            if member not in given:
                raise ValueError(f"an interruptResponse has no {member!r}: {json.dumps(given, default=repr)}")
        unknown = sorted(set(given) - {"interruptId", "response"})
        if unknown:
            raise ValueError(f"an interruptResponse has unknown members: {', '.join(unknown)}")
        if not isinstance(given["interruptId"], str):
            raise TypeError(f"interruptId must be a str, got {type(given['interruptId']).__name__}")
        if given["interruptId"] in responses:
            raise ValueError(f"two responses are for the interrupt {given['interruptId']!r}")
        responses[given["interruptId"]] = given["response"]
    return responses


_IDS = uuid.UUID("0f4f7c3e-52b5-5d3c-9a55-31f1c7a5c0de")
