"""Who may answer, before anybody is asked: the words, and that the server has the last one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hitl.cli.chat.standing import listed, why_not
from hitl.client import Interrupt, Me
from tests.python.cli.conversation import APPROVAL, Open, Serve, asks
from tests.python.cli.terminal import CTRL_C, DOWN, ENTER
from tests.python.client.fake_server import NOBODY, Answer, problem

ADA = Me.from_json(
    {
        "name": "ada",
        "scopes": ["read", "send", "answer"],
        "groups": ["finance"],
        "authentication": True,
        "prevent_self_approval": True,
        "max_body": 1_048_576,
    }
)


FIRST_KEYS = (
    "make one that can make others, hitl keys create ADMIN --scope admin, and with it (HITL_API_KEY) theirs: "
    "hitl keys create bob --scope read --scope answer"
)


def asked(kind: str = "tool_approval", **members: Any) -> Interrupt:
    return Interrupt.from_json({"interrupt_id": "i", "type": kind, "payload": {}, "sent_by": "bob", **members})


@pytest.mark.parametrize(
    ("interrupt", "me", "said"),
    [
        (asked(), ADA, None),
        (asked(approvers=["ada"]), ADA, None),
        (asked(approvers=["group:finance"]), ADA, None),
        (asked(approvers=["bob", "group:law"]), ADA, "Only bob or somebody in law can answer this."),
        # A group of somebody's name is not that somebody.
        (asked(approvers=["group:ada"]), ADA, "Only somebody in ada can answer this."),
        (asked(sent_by="ada"), ADA, "The message was yours, so somebody else has to answer this."),
        (
            asked(sent_by="ada", approvers=["ada", "bob", "group:finance"]),
            ADA,
            "The message was yours, so bob or somebody in finance has to answer this.",
        ),
        (asked("unknown_outcome", sent_by="ada"), ADA, "The message was yours, so somebody else has to answer this."),
        # A question of the agent is for whoever talks with it, but where the answer lets something run.
        (asked("user_input", sent_by="ada"), ADA, None),
        (
            asked("hook_interrupt", sent_by="ada", lets_run=True),
            ADA,
            "The message was yours, so somebody else has to answer this.",
        ),
        (asked(sent_by="ada"), replace(ADA, prevent_self_approval=False), None),
        (asked(sent_by=None), ADA, "Only an admin can answer this: nobody knows who sent the message."),
        (asked(sent_by=None), replace(ADA, scopes=("admin",)), None),
        (asked(), replace(ADA, scopes=("read",)), "Your key may not answer; one with the scope `answer` can."),
        (asked(approvers=["bob"]), replace(ADA, scopes=("read",)), "Only bob can answer this."),
        (asked(), Me.from_json(NOBODY), None),
        (
            asked(approvers=["bob"]),
            Me.from_json(NOBODY),
            f"Only bob can answer this, and this server has no keys to tell who asks. So nobody can: {FIRST_KEYS}.",
        ),
    ],
)
def test_who_cannot_answer_is_told_why_and_who_can(interrupt: Interrupt, me: Me, said: str | None) -> None:
    assert why_not(interrupt, me) == said


def test_approvers_in_words() -> None:
    assert [listed(names) for names in ([], ["a"], ["a", "b"], ["a", "group:b", "c"])] == [
        "",
        "a",
        "a or b",
        "a, somebody in b or c",
    ]


def test_a_question_for_others_is_shown_and_not_asked(serve: Serve, terminal: Open) -> None:
    server = serve(asks({"type": "color_picker", "prompt": "Pick"}, approvers=["carol"]))
    chat = terminal("chat", server.url, "go")
    chat.expect("Pick")
    chat.expect("Only carol can answer this, and this server has no keys to tell who asks. So nobody can: ")
    assert "Answer as JSON" not in chat.seen
    assert server.sent("POST", "/resume") == []
    chat.send(CTRL_C)
    assert chat.finish() == 130


def test_the_server_has_the_last_word(serve: Serve, terminal: Open) -> None:
    """A key's groups may have changed since the chat began."""
    server = serve(asks(APPROVAL, approvers=["group:finance"], sent_by="bob"))
    server.override("GET", "/me", Answer(body=dict(ADA.raw)))
    refusal = problem(403, "Only these may answer, with a key of theirs: group:finance", "not_an_approver")
    chat = terminal("chat", server.url, "go")
    chat.expect("Enter to choose")
    (session_id,) = server.sessions
    server.override("POST", f"/sessions/{session_id}/resume", refusal)
    chat.send(DOWN + ENTER)
    chat.expect("Only these may answer, with a key of theirs: group:finance. It waits")
    chat.send(CTRL_C)
    assert chat.finish() == 130
