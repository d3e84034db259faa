"""A chat with an agent that asks, for the tests of `hitl chat`."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests.python.cli.terminal import CTRL_D, ENTER, Terminal
from tests.python.client.fake_server import Agent, FakeServer, Turn

Serve = Callable[[Agent], FakeServer]
Open = Callable[..., Terminal]

APPROVAL = {"type": "tool_approval", "tool_name": "delete_file", "tool_args": {"path": "/tmp/old_logs.txt"}}


def asks(*payloads: dict[str, Any], **members: Any) -> Agent:
    """An agent that asks these one after the other and says what it heard."""

    async def agent(turn: Turn) -> str:
        return "heard " + json.dumps([await turn.ask(payload, **members) for payload in payloads])

    return agent


async def in_capitals(turn: Turn) -> str:
    """An agent that says what it was told."""
    return turn.text.upper()


def answers_sent(server: FakeServer) -> list[Any]:
    return [request.body["value"] for request in server.sent("POST", "/resume")]


def start_turn(chat: Terminal, text: str = "go") -> None:
    chat.expect("> ")
    chat.send(text + ENTER)


def leave(chat: Terminal) -> int:
    chat.expect("> ")
    chat.send(CTRL_D)
    return chat.finish()
