"""The session of a `hitl chat`: when it is made, and what somebody is shown who comes to one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hitl.client import Client
from tests.python.cli.conversation import APPROVAL, Open, Serve, asks, in_capitals, leave
from tests.python.cli.terminal import CTRL_C, CTRL_D, ENTER
from tests.python.client.fake_server import NOW, Answer


def test_whoever_comes_to_a_question_is_shown_what_was_said(serve: Serve, terminal: Open) -> None:
    server = serve(asks(APPROVAL))
    with Client(server.url) as client:
        said: list[Mapping[str, Any]] = [
            {"role": role, "content": f"{role} {n}\x1b[2J"} for n in range(5) for role in ("user", "assistant")
        ]
        session = client.create_session(said)
        client.send_message(session.session_id, "delete the old logs")
        client.wait(session.session_id)
    back = terminal("chat", server.url, "--session", session.session_id)
    before = back.expect("Approve this tool call?")
    # As much of it as tells what is answered, and that there is more.
    assert "3 messages before these" in before
    assert ("assistant 0" in before, "User: user 2" in before, "assistant 4" in before) == (False, True, True)
    assert before.rstrip().endswith("User: delete the old logs\r\n╭─")
    assert "\x1b[2J" not in back.raw


def test_of_a_long_turn_its_newest_words_are_shown(serve: Serve, terminal: Open) -> None:
    server = serve(asks(APPROVAL))
    with Client(server.url) as client:
        session = client.create_session()
        client.send_message(session.session_id, "go on for long")
        client.wait(session.session_id)
    path = f"/sessions/{session.session_id}/journal"
    next_page = {"link": f'<{path}?cursor=next>; rel="next"'}
    server.override("GET", path, Answer(body=said("The first."), headers=next_page), Answer(body=said("The last.")))
    before = terminal("chat", server.url, "--session", session.session_id).expect("Approve this tool call?")
    assert before.index("The first.") < before.index("The last.")


def test_words_that_were_read_while_their_turn_ended_are_shown_once(serve: Serve, terminal: Open) -> None:
    server = serve(asks(APPROVAL))
    with Client(server.url) as client:
        session = client.create_session()
        client.send_message(session.session_id, "go")
        (asked,) = client.wait(session.session_id).interrupts
        at_work = server.only_session().to_json() | {"status": "running", "interrupts": None}
        server.answer(asked.interrupt_id, True)
        client.wait(session.session_id)
    # Whoever comes reads that it is at work, and what it ends with from its journal: it ended in between.
    path = f"/sessions/{session.session_id}"
    server.override("GET", path, Answer(body=at_work))
    server.override("GET", f"{path}/journal", Answer(body=said("heard [true]")))
    server.override("GET", f"{path}/messages", Answer(body=[{"role": "user", "content": "go"}]))
    chat = terminal("chat", server.url, "--session", session.session_id)
    assert leave(chat) == 0
    assert chat.seen.count("heard [true]") == 1


def message(content: str) -> Mapping[str, Any]:
    return {"role": "assistant", "content": content}


def said(*words: str) -> list[Mapping[str, Any]]:
    """Entries of a journal in which a model said these."""
    return [
        {"index": 1, "entry": "step", "kind": "model", "at": NOW, "result": {"message": message(each)}}
        for each in words
    ]


def test_a_chat_in_which_nothing_is_said_leaves_no_session(serve: Serve, terminal: Open) -> None:
    server = serve(asks(APPROVAL))
    for key, code in ((CTRL_D, 0), (CTRL_C, 130)):
        chat = terminal("chat", server.url)
        chat.expect("> ")
        chat.send(key)
        assert chat.finish() == code
        assert "--session" not in chat.seen
    assert server.sessions == {}


def test_a_server_that_is_away_at_the_first_message_is_waited_for(serve: Serve, terminal: Open) -> None:
    server = serve(in_capitals)
    chat = terminal("chat", server.url)
    chat.expect("> ")
    server.stop()
    chat.send("one" + ENTER)
    chat.expect("The connection is lost; trying again.")
    server.start()
    chat.expect("ONE")
    assert leave(chat) == 0


def test_a_session_of_which_the_reply_was_lost_is_asked_for_under_the_same_key(serve: Serve, terminal: Open) -> None:
    server = serve(in_capitals)
    chat = terminal("chat", server.url)
    chat.expect("> ")
    server.replies_to_lose = 1
    chat.send("one" + ENTER)
    chat.expect("ONE")
    assert leave(chat) == 0
    first, again = (request.headers.get("idempotency-key") for request in server.sent("POST", "/sessions"))
    assert first == again is not None
