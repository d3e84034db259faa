"""Approvals in `hitl chat`: what is shown, which decisions are offered, what each one sends."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from hitl.cli.chat.rendering import approval_panel
from hitl.cli.interrupts import summary
from hitl.client import Interrupt
from tests.python.cli.conversation import APPROVAL, Open, Serve, answers_sent, asks, leave, start_turn
from tests.python.cli.terminal import DOWN, ENTER, UP
from tests.python.client.fake_server import problem

EVERYTHING = ["approve", "edit", "reject", "respond"]


def test_yes_approves_what_the_panel_shows(serve: Serve, terminal: Open) -> None:
    server = serve(asks(APPROVAL))
    chat = terminal("chat", server.url)
    start_turn(chat)
    panel = chat.expect("Run delete_file?")
    assert 'path  "/tmp/old_logs.txt"' in panel
    chat.expect("Enter to choose")
    chat.send(DOWN + ENTER)
    chat.expect("delete_file: Yes")
    chat.expect('heard [{"approved": true}]')
    assert leave(chat) == 0
    assert answers_sent(server) == [{"approved": True}]


def test_no_rejects(serve: Serve, terminal: Open) -> None:
    server = serve(asks(APPROVAL))
    chat = terminal("chat", server.url)
    start_turn(chat)
    chat.expect("Enter to choose")
    chat.send(DOWN + DOWN + ENTER)
    chat.expect("heard")
    assert answers_sent(server) == [{"approved": False}]


@pytest.mark.parametrize(
    ("typed", "approved"),
    [("no", False), ("n", False), ("No", False), ("2", False), ("yes", True), ("y", True), ("1", True)],
)
def test_an_answer_is_typed(serve: Serve, terminal: Open, typed: str, approved: bool) -> None:
    server = serve(asks(APPROVAL))
    chat = terminal("chat", server.url)
    start_turn(chat)
    chat.expect("Enter to choose")
    chat.send(typed + ENTER)
    chat.expect("heard")
    assert answers_sent(server) == [{"approved": approved}]


def test_what_is_typed_and_no_answer_is_no_yes(serve: Serve, terminal: Open) -> None:
    server = serve(asks(APPROVAL))
    chat = terminal("chat", server.url)
    start_turn(chat)
    chat.expect("Enter to choose")
    chat.send("never" + ENTER)
    chat.expect("never is none of these: type one")
    # Nor is another Enter, before anything else.
    chat.send(ENTER + DOWN)
    chat.expect("Enter to choose")
    assert answers_sent(server) == []
    chat.send(DOWN + ENTER)
    chat.expect("heard")
    assert answers_sent(server) == [{"approved": False}]


def test_an_enter_alone_decides_nothing(serve: Serve, terminal: Open) -> None:
    server = serve(asks(APPROVAL))
    chat = terminal("chat", server.url)
    start_turn(chat)
    # Whoever was still typing a message when the question came has not said yes.
    assert "→" not in chat.expect("Enter to choose")
    chat.send(ENTER)
    chat.expect("Nothing is marked: type one or its number")
    chat.send("ye")
    # What is typed marks a choice once it is one.
    assert "→" not in chat.expect("> ye")
    assert answers_sent(server) == []
    chat.send("s")
    chat.expect("→ 1. Yes")
    chat.send("!")
    chat.expect("  1. Yes")
    chat.send("\x7f" + ENTER)
    chat.expect("heard")
    assert answers_sent(server) == [{"approved": True}]


def test_a_reason_is_told(serve: Serve, terminal: Open) -> None:
    server = serve(asks(APPROVAL))
    chat = terminal("chat", server.url)
    start_turn(chat)
    chat.expect("Enter to choose")
    chat.send(UP + ENTER)
    chat.expect("Why not?")
    chat.send("the audit needs them" + ENTER)
    chat.expect("delete_file: No: the audit needs them")
    chat.expect("heard")
    assert answers_sent(server) == [{"approved": False, "reason": "the audit needs them"}]


def test_an_empty_reason_goes_back_to_the_choice(serve: Serve, terminal: Open) -> None:
    server = serve(asks(APPROVAL))
    chat = terminal("chat", server.url)
    start_turn(chat)
    chat.expect("Enter to choose")
    chat.send(UP + ENTER)
    chat.expect("Why not?")
    chat.send(ENTER)
    chat.expect("Enter to choose")
    chat.send("yes" + ENTER)
    chat.expect("heard")
    assert answers_sent(server) == [{"approved": True}]


def test_a_yes_can_be_for_the_rest_of_the_session(serve: Serve, terminal: Open) -> None:
    server = serve(asks(APPROVAL, allowed_decisions=EVERYTHING))
    chat = terminal("chat", server.url)
    start_turn(chat)
    chat.expect("Enter to choose")
    chat.send(DOWN + DOWN + DOWN + DOWN + ENTER)
    chat.expect("delete_file: Yes, and do not ask again in this session")
    chat.expect("heard")
    assert answers_sent(server) == [{"approved": True, "always": True}]


def test_arguments_are_edited_as_they_are_shown(serve: Serve, terminal: Open) -> None:
    server = serve(asks(APPROVAL, allowed_decisions=EVERYTHING))
    chat = terminal("chat", server.url)
    start_turn(chat)
    chat.expect("Enter to choose")
    chat.send(UP + UP + ENTER)
    chat.expect('{"path": "/tmp/old_logs.txt"}')
    chat.send("x" + ENTER)
    chat.expect("That is not JSON")
    chat.expect('{"path": "/tmp/old_logs.txt"}x')
    chat.send("\x7f" * 15 + 'new.txt"}' + ENTER)
    chat.expect("delete_file: Yes, with")
    chat.expect("heard")
    (sent,) = answers_sent(server)
    assert sent["type"] == "edit"
    assert sent["args"]["path"].endswith("new.txt")


def test_arguments_that_are_refused_are_asked_for_again_and_not_approved_by_the_next_line(
    serve: Serve, terminal: Open
) -> None:
    server = serve(asks(APPROVAL, allowed_decisions=EVERYTHING))
    chat = terminal("chat", server.url)
    start_turn(chat)
    chat.expect("Enter to choose")
    chat.send(UP + UP + ENTER)
    chat.expect("Its arguments as JSON")
    wrong = {"loc": ["body", "value", "args"], "msg": "is for others", "type": "denied"}
    refusal = problem(422, "Invalid answer: is for others", "invalid_answer", errors=[wrong])
    server.override("POST", f"/sessions/{server.only_session().id}/resume", refusal)
    chat.send("\x7f" * 14 + 'all"}' + ENTER)
    chat.expect("Your answer was not taken")
    # Not the menu, one entry of which lets the tool run with what was asked.
    chat.expect('Its arguments as JSON (empty to go back): {"path": "/tmp/all"}')
    chat.send("\x7f" * 60 + ENTER)
    # Whoever goes back is asked anew.
    chat.expect("Enter to choose")
    assert len(answers_sent(server)) == 1
    chat.send("no" + ENTER)
    chat.expect("heard")
    assert answers_sent(server)[1:] == [{"approved": False}]


def test_a_person_answers_in_the_tools_place(serve: Serve, terminal: Open) -> None:
    server = serve(asks(APPROVAL, allowed_decisions=EVERYTHING))
    chat = terminal("chat", server.url)
    start_turn(chat)
    chat.expect("Enter to choose")
    chat.send(UP + ENTER)
    chat.expect("What does it return?")
    chat.send("it was gone already" + ENTER)
    chat.expect("heard")
    assert answers_sent(server) == [{"type": "respond", "message": "it was gone already"}]


def test_only_allowed_decisions_are_offered(serve: Serve, terminal: Open) -> None:
    chat = terminal("chat", serve(asks(APPROVAL, allowed_decisions=["reject"])).url)
    start_turn(chat)
    assert "Yes" not in chat.expect("Enter to choose")


def test_keys_typed_before_the_question_do_not_answer_it(serve: Serve, terminal: Open) -> None:
    server = serve(asks(APPROVAL))
    chat = terminal("chat", server.url)
    # The second and third Enter are on their way before anything is asked.
    start_turn(chat, "go" + ENTER + ENTER)
    chat.expect("Enter to choose")
    assert answers_sent(server) == []
    chat.send(DOWN + DOWN + ENTER)
    chat.expect("heard")
    assert answers_sent(server) == [{"approved": False}]


def test_a_rule_that_could_not_tell_stands_in_the_panel() -> None:
    record = {
        "interrupt_id": "i",
        "session_id": "s",
        "turn_id": "t",
        "type": "tool_approval",
        "status": "pending",
        "payload": {"type": "tool_approval", "tool_name": "refund", "tool_args": {"cents": 5}},
        "rule_failed": 'rule "large" could not tell: no \u202elimit',
    }
    console = Console(file=io.StringIO(), width=120)
    console.print(approval_panel(Interrupt.from_json(record), ""))
    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue()
    assert 'A rule could not tell about this call: rule "large" could not tell: no' in shown
    assert "\u202e" not in shown
    del record["rule_failed"]
    console.print(approval_panel(Interrupt.from_json(record), ""))
    assert console.file.getvalue().count("could not tell about") == 1


def test_where_a_tool_is_from_stands_where_somebody_decides_about_it() -> None:
    record = {
        "interrupt_id": "i",
        "type": "tool_approval",
        "payload": {"type": "tool_approval", "tool_name": "remove", "tool_args": {"id": 5}},
        "tool_source": "namespace:drafts\u202e",
    }
    interrupt = Interrupt.from_json(record)
    console = Console(file=io.StringIO(), width=120)
    console.print(approval_panel(interrupt, ""))
    assert isinstance(console.file, io.StringIO)
    assert "the tool is from namespace:drafts" in console.file.getvalue()
    assert summary(interrupt).startswith("remove (namespace:drafts")
    assert "\u202e" not in console.file.getvalue() + summary(interrupt)
    del record["tool_source"]
    assert summary(Interrupt.from_json(record)) == 'remove {"id": 5}'
