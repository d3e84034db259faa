"""A rule that could not tell has a person asked: whoever decides sees that, and why, wherever they do it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.python.support.api import Json
from tests.python.ui.desk import call

if TYPE_CHECKING:
    from tests.python.ui.inbox import Inbox

ODD = {"name": "large-refunds", "effect": "allow", "tool": "refund", "when": "args.limit < 100"}
WARNING = "A rule could not tell about this call"


@pytest.fixture
def asked(inbox: Inbox) -> tuple[str, list[Json]]:
    """A session with a rule that looks at what is not there, and two refunds that it asks about."""
    response = inbox.api.post("/sessions", {"rules": [ODD]})
    assert response.status_code == 201, response.text
    session_id: str = response.json()["session_id"]
    calls = [call("refund", order=order, cents=500, reason="late") for order in (7, 8)]
    return session_id, inbox.api.settled(session_id, json.dumps([calls]), 2)["interrupts"]


def test_it_stands_above_the_arguments_with_the_rule_and_why(inbox: Inbox, asked: tuple[str, list[Json]]) -> None:
    expect(inbox.row("refund").first).to_contain_text("a rule could not tell")
    inbox.show("refund")
    warning = inbox.request.get_by_role("note")
    expect(warning).to_contain_text(WARNING)
    expect(warning).to_contain_text('rule "large-refunds" could not tell: ')
    expect(warning).to_contain_text("limit")


def test_it_is_seen_where_several_are_decided(inbox: Inbox, asked: tuple[str, list[Json]]) -> None:
    expect(inbox.rows).to_have_count(2)
    for box in inbox.rows.get_by_role("checkbox").all():
        box.check()
    inbox.click("Approve…")
    dialog = inbox.page.get_by_role("dialog")
    expect(dialog.get_by_role("note").filter(has_text=WARNING)).to_have_count(2)


def test_it_is_seen_in_the_conversation(inbox: Inbox, asked: tuple[str, list[Json]]) -> None:
    inbox.page.evaluate(f"location.hash = '#/sessions/{asked[0]}'")
    expect(inbox.page.get_by_role("note").filter(has_text=WARNING)).to_have_count(2)


def test_where_every_rule_could_tell_nothing_is_said(inbox: Inbox) -> None:
    inbox.asked(call("refund", order=9, cents=500, reason="late"))
    inbox.show("refund")
    expect(inbox.request.get_by_role("note")).to_have_count(0)
