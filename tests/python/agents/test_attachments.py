"""Images and other files in and out of tools, over pauses, stores and HTTP."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from typing import Any, NamedTuple

import pytest
from pydantic import BaseModel, ConfigDict, Field, computed_field
from pydantic.alias_generators import to_camel
from pydantic_core import to_json

import hitl
from hitl import Attachment, ChatMessage, ReActAgent, RunContext, tool
from hitl.agents.tool_results import content_of
from hitl.client import Invalid
from hitl.testing import HitlServer, Human, ScriptedChatClient
from tests.python.support.local import LocalTurn, run_locally

DOT = Attachment.of_bytes(b"GIF89a", "image/gif", name="dot.gif")
SUMS = Attachment.of_bytes(b"%PDF", "application/pdf")


GO = ChatMessage.user_message(content="go")
MARK = "[attachment 1: dot.gif, image/gif]"


@dataclass(frozen=True)
class Photo(Attachment):
    taken: int = 0


@dataclass
class Page:
    number: int


@dataclass
class Sheet:
    scan: Attachment
    number: int
    pages: list[Page] = field(default_factory=list)


class Chart(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, extra="allow")

    file_name: str = "sales"
    drawn_as: Attachment | None = None
    notes: Any = None
    secret: Attachment | None = Field(None, exclude=True)

    @computed_field
    def is_large(self) -> bool:
        return False


class Pair(NamedTuple):
    number: int
    scan: Attachment


@dataclass(frozen=True)
class Scan(Attachment):
    page: int = 0


@dataclass(frozen=True)
class Fax(Attachment):
    pages: list[int] = field(default_factory=list)
    sent_by: Page | None = None


def of_a_class_that_is_stored_as_json() -> object:
    @dataclass
    class Local:
        scan: Attachment
        of: Any

    return Local(DOT, {"address": IPv4Address("10.0.0.1"), "more": (SUMS,)})


INSIDE: list[tuple[Callable[[], Any], Any, list[Attachment]]] = [
    (lambda: Sheet(DOT, 1, [Page(2)]), {"scan": MARK, "number": 1, "pages": [{"number": 2}]}, [DOT]),
    (lambda: [Sheet(DOT, 1)], [{"scan": MARK, "number": 1, "pages": []}], [DOT]),
    (
        lambda: Chart(drawnAs=DOT, notes={"a": [SUMS]}, secret=SUMS, more=DOT),
        {
            "fileName": "sales",
            "drawnAs": MARK,
            "notes": {"a": ["[attachment 2: application/pdf]"]},
            "more": "[attachment 3: dot.gif, image/gif]",
            "isLarge": False,
        },
        [DOT, SUMS, DOT],
    ),
    (lambda: {"of": frozenset({DOT})}, {"of": [MARK]}, [DOT]),
    (lambda: {"of": {DOT}}, {"of": [MARK]}, [DOT]),
    (lambda: Pair(1, DOT), [1, MARK], [DOT]),
    (lambda: {1: {"x": Pair(1, DOT)}}, {"1": {"x": [1, MARK]}}, [DOT]),
    (lambda: Sheet(Scan("image/gif", data="AAAA", page=3), 1), {"scan": "[attachment 1: image/gif]", "number": 1}, []),
    (
        lambda: {
            "total": {"sum": 5, "by": [1]},
            "none": {},
            "fax": Fax("image/gif", data="AAAA", pages=[1, 2], sent_by=Page(1)),
            "of": {"type": "image/gif", "data": "AAAA", "pages": []},
        },
        {
            "total": {"sum": 5, "by": [1]},
            "none": {},
            "fax": "[attachment 1: image/gif]",
            "of": {"type": "image/gif", "data": "AAAA", "pages": []},
        },
        [],
    ),
    (
        of_a_class_that_is_stored_as_json,
        {"scan": MARK, "of": {"address": "10.0.0.1", "more": ["[attachment 2: application/pdf]"]}},
        [DOT, SUMS],
    ),
    (
        lambda: ChatMessage.user_message(content="hi", attachments=[DOT]),
        {"role": "user", "content": "hi", "attachments": [MARK]},
        [DOT],
    ),
]


@pytest.mark.parametrize(
    ("result", "content", "attachments"),
    [
        (DOT, "[attachment 1: dot.gif, image/gif]", [DOT]),
        (
            ["Here:", DOT, SUMS],
            "Here:\n[attachment 1: dot.gif, image/gif]\n[attachment 2: application/pdf]",
            [DOT, SUMS],
        ),
        ((DOT, "and", DOT), "[attachment 1: dot.gif, image/gif]\nand\n[attachment 2: dot.gif, image/gif]", [DOT, DOT]),
        ({"n": 1, "of": [DOT]}, {"n": 1, "of": ["[attachment 1: dot.gif, image/gif]"]}, [DOT]),
        ([1, DOT], [1, "[attachment 1: dot.gif, image/gif]"], [DOT]),
        (["a", "b"], ["a", "b"], None),
        ([], [], None),
        ({"page": Page(1)}, {"page": {"number": 1}}, None),
    ],
)
async def test_what_a_tool_returns_is_text_with_its_files_beside_it(
    result: Any, content: Any, attachments: list[Attachment] | None
) -> None:
    @tool
    async def look() -> Any:
        return result

    client = ScriptedChatClient([{"tool_calls": [{"name": "look", "args": {}}]}, {"content": "done"}])
    ended = await run_locally(ReActAgent(client=client, tools=[look]), "go")
    [told] = [message for message in ended.state if message.role == "tool"]
    said = told.content or ""
    assert (said if isinstance(content, str) else json.loads(said)) == content
    assert told.attachments == attachments
    assert client.requests[1]["messages"][-1] == told.to_dict()


@pytest.mark.parametrize(("make", "content", "attachments"), INSIDE)
async def test_files_inside_of_what_a_tool_returns_are_found_at_any_depth(
    make: Callable[[], Any], content: Any, attachments: list[Attachment]
) -> None:
    """No model gets to read base64, whatever it was in; and what the value would be stored as is the same."""

    @tool
    async def look() -> Any:
        return make()

    calls = [{"tool_calls": [{"name": "look", "args": {}}]}, {"content": "done"}]
    agent = ReActAgent(client=ScriptedChatClient(calls), tools=[look])
    ended = await run_locally(agent, "go")
    [told] = [message for message in ended.state if message.role == "tool"]
    read = json.loads(told.content or "")
    assert {key: read[key] for key in content} == content if isinstance(content, dict) else read == content
    assert "R0lGODlh" not in (told.content or "")
    if attachments:
        assert told.attachments == attachments
    again = LocalTurn(journal=ended.port.journal[:-1])
    _, state = await again.run(agent.run_turn, GO, [])
    assert [message.to_dict() for message in state] == [message.to_dict() for message in ended.state]


@pytest.mark.parametrize(
    "result",
    [
        Chart(notes=float("inf"), more=(1, 2)),
        Sheet(None, 1, [Page(2)]),  # type: ignore[arg-type]
        {"media_type": "image/gif", "data": "R0lGODlh", "url": None, "name": None},
        DOT.to_dict(),
        {"é": [1.0, 1e300, None], 2: {"x"}},
        Pair(1, None),  # type: ignore[arg-type]
    ],
)
def test_what_holds_no_file_is_the_json_that_it_was(result: Any) -> None:
    """A model is asked the same in a replay, byte for byte."""
    assert content_of(result) == (to_json(result, by_alias=True, inf_nan_mode="strings").decode(), [])


async def test_a_rejected_and_a_failed_call_attach_nothing() -> None:
    @tool(requires_approval=True)
    async def draw() -> Attachment:
        return DOT

    @tool
    async def fail() -> Attachment:
        return Attachment.of_bytes(b"", "no type")

    calls = [{"tool_calls": [{"name": "draw", "args": {}}, {"name": "fail", "args": {}}]}, {"content": "done"}]
    agent = ReActAgent(client=ScriptedChatClient(calls), tools=[draw, fail])
    ended = await run_locally(agent, "go", answers={"type": "reject"})
    told = [message for message in ended.state if message.role == "tool"]
    assert [message.attachments for message in told] == [None, None]
    assert "Attachment.media_type must be a media type such as image/png" in (told[1].content or "")


async def test_files_of_a_message_and_of_a_tool_are_there_in_a_run_that_goes_on_from_its_state() -> None:
    @tool
    async def draw() -> Attachment:
        return DOT

    @tool(requires_approval=True)
    async def send(context: RunContext) -> str:
        return repr(context.attachments)

    calls = [
        {"tool_calls": [{"name": "draw", "args": {}}]},
        {"tool_calls": [{"name": "send", "args": {}}]},
        {"content": "done"},
    ]
    client = ScriptedChatClient(calls)
    agent = ReActAgent(client=client, tools=[draw, send])
    paused = await hitl.run(agent, ChatMessage.user_message(content="go", attachments=[SUMS]))
    assert paused.status == "interrupted"
    state = hitl.RunState.from_string(agent, paused.state.to_string())
    [asked] = state.interrupts
    state.approve(asked)
    ended = await hitl.run(agent, state)
    assert ended.status == "idle", ended.error
    user, _, drawn, _, sent, _ = client.requests[-1]["messages"] + [None]
    assert user["attachments"] == [SUMS.to_dict()]
    assert drawn["attachments"] == [DOT.to_dict()]
    assert sent["content"] == repr([SUMS])


async def test_what_a_tool_does_to_the_messages_of_its_context_changes_no_session() -> None:
    seen: list[Any] = []

    @tool(once=False)
    async def clear(context: RunContext) -> str:
        message = context.conversation[-1]
        seen.append(([*context.conversation], len(context.conversation), context.conversation[1:]))
        (message.attachments or []).clear()
        (message.user_params or {}).clear()
        message.content = "never said"
        return f"{len(context.attachments)} {context.conversation[-1].content}"

    calls = [{"tool_calls": [{"name": "clear", "args": {}}]}, {"tool_calls": [{"name": "clear", "args": {}}]}]
    client = ScriptedChatClient([*calls, {"content": "done"}])
    message = ChatMessage.user_message(content="go", attachments=[SUMS], user_params={"a": [1]})
    before = [ChatMessage.user_message(content="hi"), ChatMessage.user_message(content="ho")]
    ended = await run_locally(ReActAgent(client=client, tools=[clear]), message, before)
    assert ended.state[2].to_dict() == {
        "role": "user",
        "content": "go",
        "attachments": [SUMS.to_dict()],
        "user_params": {"a": [1]},
    }
    assert [each.content for each in ended.state if each.role == "tool"] == ["1 never said", "1 never said"]
    for messages, number, rest in seen:
        assert ([each.role for each in messages], number) == (["user"] * 3, 3)
        assert list(rest) == messages[1:]


async def test_a_call_that_asks_for_no_message_copies_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def copied(_: Any) -> Any:
        raise AssertionError("copied")

    @tool
    async def count(context: RunContext) -> str:
        monkeypatch.setattr(copy, "deepcopy", copied)
        told = f"{len(context.conversation)} {len(context.attachments)}"
        monkeypatch.undo()
        return told

    calls = [{"tool_calls": [{"name": "count", "args": {}}]}, {"content": "done"}]
    agent = ReActAgent(client=ScriptedChatClient(calls), tools=[count])
    ended = await run_locally(agent, ChatMessage.user_message(content="go", attachments=[DOT, SUMS]))
    assert [each.content for each in ended.state if each.role == "tool"] == ["1 2"]


def test_over_http_they_come_in_with_a_message_and_stay_in_the_session(
    hitl_server: HitlServer, hitl_replay: HitlServer, human: Human
) -> None:
    """Through a pause, and a replay of the turn; in the next turn tools still have those of the first."""

    @tool(requires_approval=True)
    async def crop(context: RunContext) -> list[str | Attachment]:
        given = context.attachments
        corner = (given[0].to_bytes() or b"")[:3]
        return [f"of {len(given)}:", Attachment.of_bytes(corner, given[0].media_type, name="corner.gif")]

    call = {"tool_calls": [{"name": "crop", "args": {}}]}
    client = ScriptedChatClient([call, {"content": "Cropped."}, call, {"content": "Again."}])
    human.on("crop").approve()
    server = hitl_server(ReActAgent(client=client, tools=[crop]))
    session = server.client.create_session().session_id
    elsewhere = {"media_type": "application/pdf", "url": "https://example.com/a.pdf"}
    server.send({"role": "user", "content": "go", "attachments": [DOT.to_dict(), elsewhere]}, session)
    server.send("once more", session)
    messages = server.client.get_messages(session)
    assert messages[0].attachments == [DOT, Attachment("application/pdf", url="https://example.com/a.pdf")]
    corner = Attachment.of_bytes(b"GIF", "image/gif", name="corner.gif")
    told = [message for message in messages if message.role == "tool"]
    assert [message.content for message in told] == [
        "of 2:\n[attachment 1: corner.gif, image/gif]",
        "of 3:\n[attachment 1: corner.gif, image/gif]",
    ]
    assert [message.attachments for message in told] == [[corner], [corner]]
    assert client.requests[-1]["messages"] == [message.to_dict() for message in messages[:-1]]


def test_one_of_a_class_made_of_it_is_shown_as_any_other(hitl_server: HitlServer) -> None:
    @tool
    async def photograph() -> list[Photo]:
        return [Photo.of_bytes(b"GIF89a", "image/gif", name="dot.gif")]

    client = ScriptedChatClient([{"tool_calls": [{"name": "photograph", "args": {}}]}, {"content": "Seen."}])
    server = hitl_server(ReActAgent(client=client, tools=[photograph]))
    session = server.client.create_session().session_id
    server.send("go", session)
    assert client.requests[-1]["messages"][-1]["content"] == MARK
    entries = [entry.raw for entry in server.client.get_journal(session)]
    assert [entry["attachments"] for entry in entries if "attachments" in entry] == [[DOT.to_dict()]]


def test_over_http_a_wrong_one_is_refused_by_its_place(hitl_server: HitlServer) -> None:
    server = hitl_server(ReActAgent(client=ScriptedChatClient([]), tools=[]))
    session = server.client.create_session().session_id
    with pytest.raises(Invalid) as refused:
        server.client.send_message(session, {"role": "user", "attachments": [{"media_type": "gif", "data": "-"}]})
    assert [error["loc"] for error in refused.value.errors] == [
        ["body", "attachments", 0, "media_type"],
        ["body", "attachments", 0, "data"],
    ]
    assert server.client.get_messages(session) == []
