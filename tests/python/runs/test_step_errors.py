"""What an agent catches when a step fails: the same in the run that saw it fail and in every replay of it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, HttpUrl, field_validator

import hitl
from hitl import ChatMessage, ReActAgent, RunState, StepError, tool
from hitl.testing import ScriptedChatClient


class Amount(BaseModel):
    cents: int


class RateLimited(ConnectionError):
    """As clients of models raise them: by keywords alone, and with what cannot be stored."""

    def __init__(self, message: str, *, response: object) -> None:
        super().__init__(message)
        self.response = response


class Overdrawn(Exception):
    """As agents write them: a constructor of its own."""

    def __init__(self, balance: int, *, needed: int) -> None:
        super().__init__(f"{balance} of {needed}")
        self.balance = balance
        self.needed = needed


def read() -> str:
    return Path("/nope").read_text()


def sign_off() -> str:
    code = "import sys; print('no key', file=sys.stderr); sys.exit(3)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return done.stdout


def limit() -> None:
    raise RateLimited("slow down", response=object())


def overdraw() -> None:
    raise Overdrawn(3, needed=5)


def read_amount() -> Amount:
    return Amount.model_validate({"cents": "many"})


async def read_several() -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(asyncio.to_thread(read))


def in_file(error: Any) -> tuple[Any, ...]:
    return error.filename, error.errno


def in_group(error: Any) -> tuple[Any, ...]:
    return tuple(in_file(each) for each in error.split(FileNotFoundError)[0].exceptions)


@pytest.mark.parametrize(
    ("function", "cls", "look", "seen"),
    [
        (read, FileNotFoundError, in_file, ("/nope", 2)),
        (sign_off, subprocess.CalledProcessError, lambda e: (e.returncode, e.stderr), (3, "no key\n")),
        (overdraw, Overdrawn, lambda e: (e.balance, e.needed), (3, 5)),
        (read_several, ExceptionGroup, in_group, (("/nope", 2),)),
        (limit, StepError, lambda e: (e.is_a(RateLimited), e.is_a(OSError), e.is_a(ValueError)), (True, True, False)),
        (read_amount, StepError, lambda e: (e.is_a(ValueError), e.type), (True, "ValidationError")),
    ],
)
async def test_live_and_in_a_replay_alike(
    function: Callable[[], Any], cls: type[Exception], look: Callable[[Any], object], seen: object
) -> None:
    caught: list[object] = []

    async def agent(message: ChatMessage, state: list[ChatMessage]) -> tuple[ChatMessage, list[ChatMessage]]:
        try:
            await hitl.step(function)
        except Exception as error:  # noqa: BLE001 - whatever comes is what the test looks at
            caught.append((type(error), look(error)))
        await hitl.interrupt({"type": "go_on"})
        return ChatMessage.assistant_message(content="done"), state

    first = await hitl.run(agent, "go")
    assert first.state is not None
    state = RunState.from_string(agent, first.state.to_string())
    last = await hitl.run(agent, state.answer(first.interrupts[0].id, True))
    assert last.error is None
    assert caught == [(cls, seen)] * 2


class Page(BaseModel):
    """As people write them: the validator splits text, and of a list, as JSON has it, it makes an AttributeError."""

    url: HttpUrl
    tags: list[str]

    @field_validator("tags", mode="before")
    @classmethod
    def split(cls, tags: Any) -> Any:
        return tags.split(",")


@pytest.mark.parametrize("kind", ["step", "tool", "error", "argument"])
async def test_a_value_whose_own_validator_does_not_take_its_json_is_stored_all_the_same(kind: str) -> None:
    page = Page.model_validate({"url": "https://a.example", "tags": "x,y"})

    async def fetch(given: object = None) -> Any:
        if kind == "error":
            error = LookupError("no page")
            error.page = page  # type: ignore[attr-defined]
            raise error
        return page

    async def asks(message: ChatMessage, state: list[ChatMessage]) -> Any:
        try:
            found = await hitl.step(fetch, page) if kind == "argument" else await hitl.step(fetch)
        except LookupError as error:
            found = type(error).__name__
        return ChatMessage.assistant_message(content=str(found)), state

    client = ScriptedChatClient([{"tool_calls": [{"name": "fetch", "args": {}}]}, {"content": "done"}])
    calls = ReActAgent(client=client, model_name="m", tools=[tool(fetch, name="fetch")])
    agent: Any = calls if kind == "tool" else asks
    result = await asyncio.wait_for(hitl.run(agent, "go"), 20)
    said = {"error": "LookupError", "tool": "done"}.get(kind, str(page))
    assert (result.status, result.output) == ("idle", said), result.error
