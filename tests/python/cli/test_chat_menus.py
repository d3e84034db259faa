"""A question of a type that only its agent knows, whose answers its schema lists: `hitl chat` has a menu of them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.python.cli.conversation import Open, Serve, answers_sent, asks, leave, start_turn
from tests.python.cli.terminal import CTRL_C, DOWN, ENTER, UP, Terminal
from tests.python.client.fake_server import problem

FOLDER = {"type": "pick_folder", "prompt": "Where does milk belong?"}
WORDS = {"type": "string", "enum": ["home", "work", "next year"]}
YES_OR_NO = {"type": "boolean"}


def expect_menu(chat: Terminal) -> str:
    before = chat.expect("Your answer?")
    chat.expect("to leave it for later")
    return before


@pytest.mark.parametrize(
    ("schema", "keys", "said", "sent"),
    [
        (WORDS, DOWN + ENTER, "home", "home"),
        (WORDS, DOWN + DOWN + ENTER, "work", "work"),
        (WORDS, UP + ENTER, "next year", "next year"),
        (WORDS, "2" + ENTER, "work", "work"),
        (WORDS, "work" + ENTER, "work", "work"),
        (WORDS, '"work"' + ENTER, "work", "work"),
        (WORDS, "next year" + ENTER, "next year", "next year"),
        (WORDS, "worn\x7fk" + ENTER, "work", "work"),
        (WORDS, "nowhere\x15work" + ENTER, "work", "work"),
        (WORDS, "work" + UP + ENTER, "home", "home"),
        (YES_OR_NO, DOWN + ENTER, "Yes", True),
        (YES_OR_NO, "2" + ENTER, "No", False),
        (YES_OR_NO, "false" + ENTER, "No", False),
        (YES_OR_NO, "no" + ENTER, "No", False),
        (YES_OR_NO, "n" + ENTER, "No", False),
        (YES_OR_NO, "y" + ENTER, "Yes", True),
        (YES_OR_NO, "Yes" + ENTER, "Yes", True),
        ({"enum": ["10", "2"]}, "2" + ENTER, "2", "2"),
        ({"enum": ["10", "2"]}, "1" + ENTER, "10", "10"),
    ],
)
def test_an_answer_is_chosen_or_typed(
    serve: Serve, terminal: Open, schema: dict[str, Any], keys: str, said: str, sent: Any
) -> None:
    server = serve(asks(FOLDER, response_schema=schema))
    chat = terminal("chat", server.url)
    start_turn(chat)
    assert "Where does milk belong?" in expect_menu(chat)
    chat.send(keys)
    chat.expect(f"> pick_folder: {said}")
    assert leave(chat) == 0
    assert answers_sent(server) == [sent]


def test_the_box_says_what_the_menu_does_not(serve: Serve, terminal: Open) -> None:
    payload = {**FOLDER, "note": "it is cold there"}
    chat = terminal("chat", serve(asks(FOLDER, payload, response_schema=WORDS)).url)
    start_turn(chat)
    first = expect_menu(chat)
    assert ("Where does milk belong?" in first, "prompt" in first, "enum" in first) == (True, False, False)
    chat.send(DOWN + ENTER)
    second = expect_menu(chat)
    assert ('"note": "it is cold there"' in second, "prompt" in second) == (True, False)
    chat.send(DOWN + ENTER)
    chat.expect("heard")
    assert leave(chat) == 0


def test_what_is_typed_and_no_answer_chooses_nothing(serve: Serve, terminal: Open) -> None:
    server = serve(asks(FOLDER, response_schema=YES_OR_NO))
    chat = terminal("chat", server.url)
    start_turn(chat)
    expect_menu(chat)
    chat.send("nope" + ENTER)
    chat.expect("nope is none of these: type one")
    assert answers_sent(server) == []
    chat.send("no" + ENTER)
    chat.expect("> pick_folder: No")
    assert leave(chat) == 0
    assert answers_sent(server) == [False]


def test_it_is_left_open_with_ctrl_c(serve: Serve, terminal: Open) -> None:
    server = serve(asks(FOLDER, response_schema=WORDS))
    chat = terminal("chat", server.url)
    start_turn(chat)
    expect_menu(chat)
    chat.send(CTRL_C)
    chat.expect("it stays open")
    assert chat.finish() == 130
    assert answers_sent(server) == []


def test_an_answer_that_is_refused_is_asked_for_again(serve: Serve, terminal: Open) -> None:
    server = serve(asks(FOLDER, response_schema=WORDS))
    chat = terminal("chat", server.url)
    start_turn(chat)
    expect_menu(chat)
    wrong = {"loc": ["body", "value"], "msg": "it is full", "type": "value_error"}
    refusal = problem(422, "Invalid answer: body.value: it is full", "invalid_answer", errors=[wrong])
    server.override("POST", f"/sessions/{server.only_session().id}/resume", refusal)
    chat.send("home" + ENTER)
    chat.expect("Your answer was not taken: it is full.")
    expect_menu(chat)
    chat.send("work" + ENTER)
    chat.expect("> pick_folder: work")
    assert leave(chat) == 0


@pytest.mark.parametrize(
    "schema",
    [
        {"enum": ["home", 7]},
        {"enum": ["home", ""]},
        {"enum": ["home", "ho\u200bme"]},
        {"enum": []},
        {"type": ["boolean", "null"]},
        {"type": "boolean", "const": True},
        {"anyOf": [WORDS, {"type": "null"}]},
        True,
    ],
)
def test_everything_else_is_asked_for_as_json(serve: Serve, terminal: Open, schema: Any) -> None:
    chat = terminal("chat", serve(asks(FOLDER, response_schema=schema)).url)
    start_turn(chat)
    assert "Your answer?" not in chat.expect("Answer as JSON")


def test_questions_that_the_server_does_not_read_are_answered_as_their_schema_says(
    serve: Serve, terminal: Open
) -> None:
    """An agent's own, with a single option, or a member that questions do not have."""
    only = {"question": "Where?", "header": "Where", "options": [{"label": "home", "description": "In town"}]}
    server = serve(asks({"type": "user_input", "questions": [only], "list": "groceries"}, response_schema=WORDS))
    chat = terminal("chat", server.url)
    start_turn(chat)
    assert "groceries" in expect_menu(chat)
    chat.send("work" + ENTER)
    chat.expect("> user_input: work")
    assert leave(chat) == 0
    assert answers_sent(server) == ["work"]
