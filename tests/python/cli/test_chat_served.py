"""`hitl chat` with a real server behind it, as in the README: real workers, real files, a real restart."""

from __future__ import annotations

import functools
import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hitl import _core
from tests.python.cli.conversation import Open, leave, start_turn
from tests.python.cli.terminal import CTRL_C, DOWN, ENTER
from tests.python.support.api import Api
from tests.python.support.served import Served

APPROVAL = {"type": "tool_approval", "tool_name": "pay", "tool_args": {"amount": 100}}


def play(name: str, argument: Any) -> str:
    """A message to the `playbook` agent."""
    return f"{name} {json.dumps(argument)}"


@pytest.fixture
def terminal(terminal: Open) -> Open:
    """Started by Python, as a person's is."""
    return functools.partial(terminal, started=True)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    return tmp_path / "files"


@pytest.fixture
def file_agent(files: Path) -> Iterator[Served]:
    with Served("hitl.examples.file_agent:agent", environment={"HITL_FILES": str(files)}) as server:
        yield server


@pytest.fixture(scope="module")
def playbook() -> Iterator[Served]:
    with Served("playbook") as server:
        yield server


def test_a_file_is_deleted_after_yes_and_kept_after_no(terminal: Open, file_agent: Served, files: Path) -> None:
    chat = terminal("chat", file_agent.url)
    start_turn(chat, "delete the old logs file")
    assert 'path  "old_logs.txt"' in chat.expect("Run delete_file?")
    chat.expect("Enter to choose")
    assert (files / "old_logs.txt").exists()
    chat.send(DOWN + DOWN + DOWN + ENTER)
    chat.expect("Why not?")
    chat.send("the auditor wants it" + ENTER)
    chat.expect("delete_file: No: the auditor wants it")
    assert "the auditor wants it" in chat.expect("> ")
    assert (files / "old_logs.txt").exists()

    chat.send("delete the old logs file" + ENTER)
    chat.expect("Enter to choose")
    chat.send(DOWN + ENTER)
    chat.expect("Done: old_logs.txt is gone.")
    assert leave(chat) == 0
    assert not (files / "old_logs.txt").exists()
    assert chat.seen.count("is gone.") == 1


def test_a_question_of_the_model_is_answered(terminal: Open, file_agent: Served) -> None:
    chat = terminal("chat", file_agent.url)
    start_turn(chat, "help me organize my downloads")
    chat.expect("Other")
    chat.expect("Enter to choose")
    chat.send(DOWN + DOWN + ENTER)
    # What was chosen shapes the next thing that is asked.
    assert "By date" in chat.expect("Approve this tool call?")
    chat.expect("Enter to choose")
    chat.send(CTRL_C)
    assert chat.finish() == 130


def test_two_at_once_and_an_answer_the_schema_refuses(terminal: Open) -> None:
    with Served("hitl.examples.color_picker:palette") as server:
        chat = terminal("chat", server.url)
        start_turn(chat, "colors")
        chat.expect("Answer as JSON")
        chat.send('"blue"' + ENTER)
        # In the words of the server itself: the place in the request is not among them.
        chat.expect("Your answer was not taken:")
        assert "body" not in chat.expect("Answer as JSON")
        chat.send('{"hex": "#1d3557"}' + ENTER)
        chat.expect('color_picker: {"hex": "#1d3557"}')
        chat.expect("Answer as JSON")
        chat.send('{"hex": "#e63946"}' + ENTER)
        chat.expect('color_picker: {"hex": "#e63946"}')
        chat.expect("#e63946")
        assert leave(chat) == 0
        (session,) = server.api.get("/sessions").json()
        assert session["status"] == "idle"


def test_somebody_else_answers_first(terminal: Open, playbook: Served) -> None:
    chat = terminal("chat", playbook.url, play("ask", APPROVAL))
    chat.expect("Enter to choose")
    newest = playbook.api.get("/interrupts", status="pending").json()[0]
    resumed = playbook.api.post(f"/interrupts/{newest['interrupt_id']}/resume", {"value": {"approved": False}})
    assert resumed.status_code == 200
    chat.expect("answered by somebody else")
    chat.expect('{"approved": false}')
    assert chat.finish() == 0


def test_what_others_have_to_answer_waits_for_them(terminal: Open, tmp_path: Path) -> None:
    store = f"sqlite:{tmp_path / 'hitl.db'}"
    ada, bob = (_core.create_key(store, name, ["read", "send", "answer"], [])[1] for name in ("ada", "bob"))
    with Served("playbook", store=store, prevent_self_approval=True) as server:
        chat = terminal("chat", server.url, play("transfer_approved_by", []), HITL_API_KEY=ada)
        # What it is about is shown; nothing is asked that could not be answered.
        chat.expect("Approve this tool call?")
        chat.expect("The message was yours, so somebody else has to answer this. It waits")
        assert "Enter to choose" not in chat.seen
        other = Api(server.url, api_key=bob)
        (asked,) = other.get("/interrupts", status="pending").json()
        assert other.resume(asked["session_id"], asked["interrupt_id"], {"approved": True}).status_code == 200
        other.close()
        chat.expect("answered by bob")
        chat.expect('{"cents": 1}')
        assert chat.finish() == 0


def test_what_somebody_works_on_is_asked_again(terminal: Open, playbook: Served) -> None:
    chat = terminal("chat", playbook.url, play("ask", APPROVAL))
    chat.expect("Enter to choose")
    newest = playbook.api.get("/interrupts", status="pending").json()[0]
    claim = f"/interrupts/{newest['interrupt_id']}/claim"
    assert playbook.api.post(claim, {"as": "ada"}).status_code == 200
    chat.send(DOWN + ENTER)
    chat.expect("claimed by ada until")
    chat.expect("your answer was not taken")
    assert playbook.api.http.delete(claim, params={"as": "ada"}).status_code == 200
    chat.expect("Enter to choose")
    chat.send(DOWN + ENTER)
    chat.expect('{"approved": true}')
    assert chat.finish() == 0


def test_leaving_and_coming_back(terminal: Open, playbook: Served) -> None:
    chat = terminal("chat", playbook.url)
    start_turn(chat, play("ask", APPROVAL))
    chat.expect("Enter to choose")
    chat.send(CTRL_C)
    assert chat.finish() == 130
    (command,) = [line.strip() for line in chat.seen.splitlines() if "--session" in line]

    back = terminal(*command.split()[1:])
    back.expect("Enter to choose")
    back.send(DOWN + ENTER)
    back.expect('{"approved": true}')
    assert leave(back) == 0


def test_a_chat_outlives_a_restart_of_the_server(terminal: Open, tmp_path: Path) -> None:
    store = f"sqlite:{tmp_path / 'hitl.db'}"
    with Served("playbook", store=store) as first:
        port = int(first.url.rpartition(":")[2])
        chat = terminal("chat", first.url)
        # Keys come back sorted, which tells the reply from the echo of what was typed.
        start_turn(chat, play("echo", {"b": 1, "a": "before"}))
        chat.expect('{"a": "before", "b": 1}')
        chat.expect("> ")
        first.signal(signal.SIGTERM)
        first.wait()
    with Served("playbook", store=store, port=port):
        chat.send(play("echo", {"b": 1, "a": "after"}) + ENTER)
        chat.expect('{"a": "after", "b": 1}')
        assert leave(chat) == 0


def test_a_failed_turn_is_told(terminal: Open, playbook: Served) -> None:
    chat = terminal("chat", playbook.url, play("fail", "no such luck"))
    chat.expect("error: ValueError: no such luck")
    assert chat.finish() == 1
