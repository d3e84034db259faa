"""A tool that ran: whatever it returns, the model learns that it ran, and Python gets what was stored."""

from __future__ import annotations

import collections
import json
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, model_serializer

import hitl
from hitl import Attachment, ChatMessage, ReActAgent, ResultNotStored, tool
from hitl.testing import ScriptedChatClient
from tests.python.support.local import LocalTurn


class Receipt:
    def __str__(self) -> str:
        return "receipt 7"


class Shy:
    def __str__(self) -> str:
        raise RuntimeError("no words")


class Odd(BaseModel):
    receipt: Any

    @model_serializer
    def refuse(self) -> dict[str, Any]:
        raise RuntimeError("not today")


class Rows(BaseModel):
    rows: Iterable[int]
    note: Any = None


def local_record() -> object:
    @dataclass
    class Record:
        number: int

    return Record(7)


def a_cycle() -> object:
    rows: list[Any] = []
    rows.append(rows)
    return rows


STORED_AS_JSON: list[tuple[Callable[[], object], object]] = [
    (lambda: collections.OrderedDict(a=1), {"a": 1}),
    (lambda: {"from": IPv4Address("10.0.0.1")}, {"from": "10.0.0.1"}),
    (lambda: (n for n in (1, 2)), [1, 2]),
    (lambda: Rows(rows=(n for n in (1, 2))), {"rows": [1, 2], "note": None}),
    (lambda: [Rows(rows=[1], note=(n for n in (2, 3)))], [{"rows": [1], "note": [2, 3]}]),
    (lambda: [Receipt()], ["receipt 7"]),
    (lambda: {"of": Receipt(), "scan": b"\xff"}, {"of": "receipt 7", "scan": "_w=="}),
    (local_record, {"number": 7}),
]

NOT_STORED: list[Callable[[], object]] = [Shy, a_cycle, lambda: Odd(receipt=Receipt())]


class Payments:
    """A gated tool that returns something odd, and a model that calls it until it is told that it ran."""

    def __init__(self, make: Callable[[], object]) -> None:
        self.paid = 0

        @tool(requires_approval=True)
        async def pay() -> Any:
            """Pay."""
            self.paid += 1
            return make()

        self.tool = pay
        call: dict[str, Any] = {"tool_calls": [{"name": "pay", "args": {}}]}
        client = ScriptedChatClient([call, {"content": "done"}])
        self.agent = ReActAgent(client=client, model_name="scripted", tools=[pay])

    async def told(self) -> str:
        """What the model read of its call, once it was approved."""
        first = await hitl.run(self.agent, "pay")
        assert first.state is not None
        last = await hitl.run(self.agent, first.state.approve(first.interrupts[0]))
        assert last.error is None
        [message] = [each for each in last.messages if each.role == "tool"]
        return message.content or ""


@pytest.mark.parametrize(("make", "plain"), STORED_AS_JSON)
async def test_what_cannot_be_stored_is_json_for_the_model(make: Callable[[], object], plain: object) -> None:
    payments = Payments(make)
    content = await payments.told()
    assert (json.loads(content), payments.paid) == (plain, 1)


@pytest.mark.parametrize(("make", "plain"), STORED_AS_JSON)
async def test_and_for_python_the_copy_of_that_json(make: Callable[[], object], plain: object) -> None:
    @tool
    async def look() -> Any:
        """Look."""
        return make()

    assert await LocalTurn().run(look.call) == plain


def raising() -> object:
    raise FileNotFoundError("report\udcff.txt")


@dataclass
class File:
    name: str


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: "report\udcff.txt", "report\ufffd.txt"),
        (lambda: ["report\udcff.txt"], '["report\ufffd.txt"]'),
        (
            lambda: {"report\udcff.txt": float("nan"), "of": (File("\ud83d\ude00"), b"\xff")},
            '{"report\ufffd.txt":"NaN","of":[{"name":"\U0001f600"},"_w=="]}',
        ),
        (raising, '{"error": "FileNotFoundError: report\ufffd.txt"}'),
    ],
)
async def test_the_name_of_a_file_that_is_no_utf_8_is_told_as_far_as_it_is(
    make: Callable[[], object], told: str
) -> None:
    payments = Payments(make)
    assert (await payments.told(), payments.paid) == (told, 1)


@pytest.mark.parametrize("make", NOT_STORED)
async def test_where_there_is_no_json_the_model_is_told_that_the_tool_ran(make: Callable[[], object]) -> None:
    payments = Payments(make)
    content = await payments.told()
    assert json.loads(content)["error"].startswith("the tool pay ran; its result could not be stored: ")
    assert payments.paid == 1


@pytest.mark.parametrize("make", NOT_STORED)
async def test_and_python_gets_an_error_that_says_so(make: Callable[[], object]) -> None:
    @tool
    async def look() -> Any:
        """Look."""
        return make()

    local = LocalTurn()
    with pytest.raises(ResultNotStored, match="the tool look ran"):
        await local.run(look.call)
    [(_, outcome)] = local.port.steps
    assert outcome["error"]["type"] == "ResultNotStored"


async def test_a_result_that_no_frame_takes_is_no_failure_of_the_tool_either(monkeypatch: pytest.MonkeyPatch) -> None:
    @tool
    async def look() -> str:
        """Look."""
        return "x" * 100

    local = LocalTurn()
    record = local.port.step

    def limited(step: Any, result: dict[str, Any]) -> int:
        if "value" in result:
            raise ValueError("100 bytes, more than the limit")
        return record(step, result)

    monkeypatch.setattr(local.port, "step", limited)
    with pytest.raises(ResultNotStored, match="the tool look ran; its result could not be stored: 100 bytes, more"):
        await local.run(look.call)


async def test_bytes_that_are_no_text_are_base64_for_the_model() -> None:
    content = await Payments(lambda: b"\xff\x00").told()
    assert json.loads(content) == "_wA="


async def test_a_step_of_python_code_still_refuses_what_cannot_be_stored() -> None:
    async def agent(message: ChatMessage, state: list[ChatMessage]) -> tuple[ChatMessage, list[ChatMessage]]:
        await hitl.step(Receipt)
        raise AssertionError("not reached")

    error = (await hitl.run(agent, "go")).error or ""
    assert error.startswith("TypeError: result of step 'Receipt' is of type ")
    assert error.endswith(".Receipt, which cannot be stored")


async def test_nor_does_the_name_of_such_a_file_end_the_turn_that_attaches_it(tmp_path: Path) -> None:
    path = tmp_path / "report\udcff.txt"
    path.write_text("fine")

    @tool
    async def look() -> list[Attachment]:
        """Look."""
        return [Attachment.of_file(path), Attachment.of_bytes(b"", "text/plain", name=path.name)]

    client = ScriptedChatClient([{"tool_calls": [{"name": "look", "args": {}}]}, {"content": "done"}])
    result = await hitl.run(ReActAgent(client, "scripted", tools=[look]), "look")
    assert result.error is None
    [told] = [message for message in result.messages if message.role == "tool"]
    assert [attached.name for attached in told.attachments or []] == ["report\ufffd.txt"] * 2


async def still_to_do() -> int:
    return 1


async def to_come() -> AsyncIterator[int]:
    yield 1


@pytest.mark.parametrize(
    ("made", "kind"), [(still_to_do, r"a coroutine, still_to_do\(\)"), (to_come, r"an async generator, to_come\(\)")]
)
async def test_what_nobody_has_awaited_is_no_result(made: Callable[[], object], kind: str) -> None:
    @tool
    async def look() -> Any:
        """Look."""
        return made()

    with pytest.raises(TypeError, match=rf"^look returned {kind}, that nobody has awaited: is an `await` missing\?$"):
        await LocalTurn().run(look.call)
