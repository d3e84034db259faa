"""What every face can be asked to do. A driver says it in its own words, and what those words have no form for."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

import pytest

from hitl import Decision
from tests.python.behaviours.ledger import Ledger
from tests.python.behaviours.scenes import Scene

Errors = type[BaseException] | tuple[type[BaseException], ...]
Mistake = Literal[
    "unknown id",
    "wrong kind",
    "duplicate id",
    "nothing pending",
    "new message",
    "withdrawn",
    "failed save",
    "newer version",
]


@dataclass(frozen=True)
class Waiting:
    """Something that waits for a person."""

    id: str
    """By which it is answered."""

    tool: str | None
    """The gated tool; None for a question."""

    args: dict[str, Any]
    """What would run; of a question, what it shows."""

    agent: str | None = field(default=None, compare=False)
    metadata: Any = field(default=None, compare=False)

    def to_json(self) -> dict[str, Any]:
        return {"id": self.id, "tool": self.tool, "args": self.args, "agent": self.agent, "metadata": self.metadata}


class Conversation(ABC):
    """One conversation with the agent of a scene."""

    output: str | None = None
    """What the agent answered last; None while it waits."""

    is_out_of_steps: bool = False
    """Whether the last turn ended because the model was asked too often."""

    usage: Mapping[str, float] = {}
    """Of the last turn, where the face tells."""

    streamed: list[str] = []
    """The pieces of text so far, where the conversation was opened with `streaming=True`."""

    @abstractmethod
    def say(self, text: str) -> None:
        """A message; returns when its turn is over or waits for people."""

    @abstractmethod
    def waiting(self) -> list[Waiting]:
        """What waits, in order of arrival."""

    @abstractmethod
    def answer(self, answers: Sequence[tuple[str, Any]]) -> None:
        """Answers by id, in one request: decisions about tools, any JSON value to questions. Then go on."""

    @abstractmethod
    def messages(self) -> list[dict[str, Any]]:
        """What the model was sent in its last request, without the system prompt."""

    def look_again(self) -> None:
        """Go on without an answer."""
        raise NotImplementedError

    def in_another_process(self) -> Conversation:
        """The same conversation where this process is gone: another one has what was kept and nothing else."""
        raise NotImplementedError

    def cancel(self) -> None:
        """Give up the turn that waits."""
        raise NotImplementedError

    def from_the_future(self) -> None:
        """Go on from what is kept, as a newer release would have written it."""
        raise NotImplementedError

    def failing_store(self) -> AbstractContextManager[None]:
        """While it lasts, nothing can be saved."""
        raise NotImplementedError

    # -- short words for tests ------------------------------------------------------------------------------------

    def decide(self, *decisions: Decision) -> None:
        """One decision for each of those that wait, in their order."""
        self.answer(list(zip([one.id for one in self.waiting()], decisions, strict=True)))

    def told(self) -> list[str]:
        """What the model was told of its calls, in the order of its calls, and beside that where the face does that."""
        return [message["content"] for message in self.messages() if message["role"] in ("tool", "note")]


class Face(ABC):
    """One way to use the package. Made for one test; `folder` is the test's own."""

    name: ClassVar[str]
    title: ClassVar[str]
    """How the page calls it."""

    cannot: ClassVar[dict[int | tuple[int, str], str]] = {}
    """Behaviours, or parts of them, that its vocabulary has no form for, and why."""

    errors: ClassVar[dict[Mistake, Errors]]
    """What it raises, each in its own words."""

    refuses_used_ids: ClassVar[bool] = True
    """Whether a call under the id of an approved one is refused, and nobody is asked; else it is asked about."""

    refuses_shared_ids: ClassVar[bool] = True
    """Whether calls of one reply that share an id are refused, and nobody is asked; else each is asked about."""

    misused_ids: ClassVar[dict[Literal["later", "shared"], str]] = {}
    """The errors that end a turn whose model uses an id again, by name; nothing where the model is told of it."""

    step_limit: ClassVar[int] = 20
    """How often the model may be asked in a turn."""

    policy_failure: ClassVar[tuple[type[Exception], ...]] = ()
    """What a message raises when a policy does; nothing where a person is asked instead."""

    def __init__(self, folder: Path, cleanup: ExitStack) -> None:
        self.folder = folder
        self.cleanup = cleanup
        self.ledger = Ledger(folder)

    @abstractmethod
    def open(
        self, scene: Scene, *, durable: bool = False, streaming: bool = False, context: dict[str, Any] | None = None
    ) -> Conversation:
        """A new conversation.

        durable: kept where another process finds it. streaming: text comes piece by piece. context: for its tools,
        where the face has that.
        """

    @abstractmethod
    def rejection(self, tool: str, *, reason: str | None = None, message: str | None = None) -> str:
        """What the model is told of a rejected call, exactly."""

    def misuse(self, which: Literal["later", "shared"]) -> AbstractContextManager[Any]:
        """Around what ends in the error of a model that uses an id again, where it does."""
        name = self.misused_ids.get(which)
        return nullcontext() if name is None else pytest.raises(Exception, check=lambda error: _is(error, name))

    def answered(self, value: Any) -> str:
        """What the model is told by the tool `ask` of an answer to its question, exactly."""
        return json.dumps(value)

    def edited(self, result: str, args: str) -> list[str]:
        """What the model is told of a call whose arguments a person changed, exactly. args: as JSON, of no spaces."""
        return [f"{result}\n\n[A person changed the arguments of this call to {args}]"]

    @classmethod
    def imports(cls) -> list[str]:
        """The modules that its conversations need, besides those that every program of hitl has."""
        return [cls.__module__]

    @classmethod
    def reason(cls, number: int, part: str | None = None) -> str | None:
        """Why its words cannot express a behaviour; None where they can."""
        return cls.cannot.get(number) or (None if part is None else cls.cannot.get((number, part)))


def _is(error: BaseException, name: str) -> bool:
    """Whether an error is of the class: by name, for its module is not imported where nobody needs it."""
    return type(error).__name__ == name
