"""`event.interrupt(...)`: what a callback asks, and how the answer gets back to it.

A callback that needs a person raises `InterruptException`; when the answer is there it is called again from its top,
and the same call of `interrupt` returns. A tool in a thread just waits. The question itself is a hitl interrupt of the
step that the callback or tool runs in.
"""

from __future__ import annotations

import asyncio
import copy
import json
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal, TypedDict, TypeVar

from hitl.decisions import read_approvers
from hitl.errors import HitlError
from hitl.turn.interrupts import interrupt as hitl_interrupt

T = TypeVar("T")


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


class InterruptException(HitlError):
    """A person is needed. `interrupt` is the question; whoever catches it must raise it again."""

    code = "person_needed"

    def __init__(self, interrupt: Interrupt) -> None:
        super().__init__(interrupt)
        self.interrupt = interrupt


class InterruptResponse(TypedDict):
    """An answer to one interrupt."""

    interruptId: str
    """`Interrupt.id`."""

    response: Any
    """Any JSON value; None is an answer too."""


class InterruptResponseContent(TypedDict):
    """An answer as `agent([...])` takes it."""

    interruptResponse: InterruptResponse


Source = Literal["before_tool_call", "tool_call"]

_TYPES: Final[dict[Source, str]] = {"before_tool_call": "hook_interrupt", "tool_call": "tool_interrupt"}
PAYLOAD_TYPES: Final = tuple(_TYPES.values())
"""Types of the hitl interrupts that stand behind those of this package."""


class Questions:
    """What the callbacks of one event, or one tool call, asked, and what was answered."""

    def __init__(self, source: Source, tool_use: Mapping[str, Any], key: str = "") -> None:
        """`key` is of this event alone and the same in its re-runs; ids are made from it."""
        self._source: Source = source
        self._tool_use = tool_use
        self._key = key
        self._answers: dict[str, Any] = {}
        self._open: dict[str, Interrupt] = {}
        self._approvers: dict[str, tuple[str, ...]] = {}
        self._owners: dict[str, int | None] = {}
        self._asker: int | None = None
        self._failure: ValueError | None = None

    def begin_callback(self, index: int) -> None:
        """This one is about to be called."""
        self._asker = index

    @property
    def open(self) -> list[Interrupt]:
        """What the callbacks asked and has no answer yet."""
        return list(self._open.values())

    def has_raised(self, error: InterruptException) -> bool:
        """Whether it is a question of these callbacks, and not one that somebody made up."""
        return self._open.get(error.interrupt.name) is error.interrupt

    def ask(self, name: Any, reason: Any, response: Any, approvers: Iterable[str] | None) -> Any:
        """The answer, or `InterruptException`."""
        if not isinstance(name, str) or not name:
            raise TypeError(f"interrupt() needs a name, a non-empty str, got {name!r}")
        if self._owners.setdefault(name, self._asker) is not self._asker:
            self._failure = ValueError(f"interrupt name {name!r} is used by several callbacks of one event")
            raise self._failure
        if name in self._answers:
            return copy.deepcopy(self._answers[name])
        if response is not None:
            return response
        who = read_approvers(approvers)
        key = uuid.uuid5(_IDS, f"{self._key}/{name}")
        asked = Interrupt(f"v1:{self._source}:{self._tool_use['toolUseId']}:{key}", name, reason)
        if self._source == "tool_call" and not _runs_on_a_loop():
            # A thread can wait where it stands, so that its steps before the question are not asked for again.
            self._answers[name] = hitl_interrupt.sync(self._payload(asked), message=_line(asked), approvers=who or None)
            return copy.deepcopy(self._answers[name])
        self._open[name] = asked
        self._approvers[name] = who
        raise InterruptException(asked)

    async def answered(self, run: Callable[[], Awaitable[T]]) -> T:
        """Call `run`, which calls every callback, until none of them asks anything any more."""
        while True:
            self._open, self._owners, self._asker = {}, {}, None
            result = await run()
            if self._failure is not None:
                raise self._failure  # also where the callback has caught it
            if not self._open:
                return result
            asked = self._open
            answers = await asyncio.gather(
                *(
                    hitl_interrupt(self._payload(each), message=_line(each), approvers=self._approvers[name] or None)
                    for name, each in asked.items()
                )
            )
            self._answers.update(zip(asked, answers, strict=True))

    def _payload(self, asked: Interrupt) -> dict[str, Any]:
        return {
            "type": _TYPES[self._source],
            "id": asked.id,
            "name": asked.name,
            "reason": asked.reason,
            "tool_name": self._tool_use["name"],
            "tool_args": self._tool_use["input"],
        }


def _runs_on_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _line(asked: Interrupt) -> str:
    """What lists show."""
    return asked.reason if isinstance(asked.reason, str) else asked.name


class Interruptible:
    """What an event and the context of a tool have in common: `interrupt`."""

    agent: Any
    _questions: Questions

    def interrupt(
        self, name: str, reason: Any = None, response: Any = None, *, approvers: Iterable[str] | None = None
    ) -> Any:
        """Ask a person; returns the answer once it is there.

        Args:
            name: What to call the question; no other callback of the event may call one so.
            reason: What the person is shown, any JSON value.
            response: The answer, where it is known beforehand; None is none.
            approvers: Who alone may answer on a server: names of keys, and `group:<name>`.

        Raises:
            InterruptException: A person is needed. Let it pass: the callback is called again with the answer. A tool
                that is no `async def` runs in a thread and waits there instead.
            ValueError: Another callback of this event uses the name.
            RuntimeError: The event has no agent.
        """
        if getattr(self, "agent", None) is None:
            raise RuntimeError("agent instance attribute not set")
        return self._questions.ask(name, reason, response, approvers)


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
