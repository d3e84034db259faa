"""What one cannot answer: the page says so, and who can, where buttons would only fail."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from playwright.sync_api import Locator, expect

from tests.python.support.api import Api
from tests.python.support.served import Served
from tests.python.ui.conftest import Enter, MakeKey
from tests.python.ui.desk import call
from tests.python.ui.inbox import Inbox, pending

REFUND = call("refund", order=7, cents=500, reason="late")
INVOICE = call("pay_invoice", number=12)
ALL = ("read", "send", "answer")

AsKey = Callable[[str], Api]


@pytest.fixture(scope="module")
def desk() -> Iterator[Served]:
    with Served(
        "tests.python.ui.desk:desk", workers=4, api_key="the key of the operator", prevent_self_approval=True
    ) as server:
        yield server


@pytest.fixture
def as_key(desk: Served) -> Iterator[AsKey]:
    """The requests of a program with a key of its own."""
    with ExitStack() as stack:

        def client(key: str) -> Api:
            api = Api(desk.url, api_key=key)
            stack.callback(api.close)
            return api

        yield client


def offers_nothing(place: Locator) -> None:
    for name in ("Approve", "Edit", "Reject", "Claim"):
        expect(place.get_by_role("button", name=re.compile(f"^{name}"))).to_have_count(0)
    expect(place.get_by_label("Snooze")).to_have_count(0)
    expect(place.get_by_role("checkbox")).to_have_count(0)


def test_the_sender_sees_that_somebody_else_has_to_answer(enter: Enter, make_key: MakeKey, as_key: AsKey) -> None:
    ada = make_key("ada", *ALL)["key"]
    session_id, [asked] = Inbox.asked_by(as_key(ada), REFUND)
    inbox = enter(ada)
    expect(inbox.page.get_by_text("Nothing needs you.")).to_be_visible()
    inbox.go("Waiting")
    expect(inbox.row("refund")).to_contain_text("not for you")
    inbox.show("refund")
    expect(inbox.answer).to_contain_text("The message was yours, so somebody else has to answer this.")
    offers_nothing(inbox.request)
    inbox.press("a", "c", "r")
    expect(inbox.undo).to_have_count(0)
    expect(inbox.answer.locator("form")).to_have_count(0)
    assert pending(inbox.api, asked["interrupt_id"])
    # Somebody else does, and the sender sees who.
    other = enter(make_key("bob", *ALL)["key"])
    other.show("refund")
    other.click("Approve", other.answer)
    other.send()
    assert other.said(session_id) == "refunded 500 cents of order 7: late"
    expect(inbox.answer).to_contain_text("Approved by bob")


def test_the_sender_is_told_in_the_conversation(enter: Enter, make_key: MakeKey, as_key: AsKey) -> None:
    ada = make_key("ada", *ALL)["key"]
    session_id, _ = Inbox.asked_by(as_key(ada), REFUND)
    inbox = enter(ada)
    inbox.page.goto(f"{inbox.page.url.split('#')[0]}#/sessions/{session_id}/chat")
    card = inbox.page.get_by_role("region", name="Request: refund")
    expect(card).to_contain_text("The message was yours, so somebody else has to answer this.")
    offers_nothing(card)


def test_a_question_of_the_agent_is_for_who_talks_with_it(enter: Enter, make_key: MakeKey, as_key: AsKey) -> None:
    ada = make_key("ada", *ALL)["key"]
    session_id, [asked] = Inbox.asked_by(as_key(ada), call("ask_anything", payload={"type": "color"}, message="Which?"))
    inbox = enter(ada)
    inbox.show("Which?")
    inbox.answer.get_by_role("textbox").fill("blue")
    inbox.click("Answer", inbox.answer)
    inbox.send()
    assert inbox.said(session_id) == '"blue"'
    assert inbox.api.interrupt(asked["interrupt_id"])["resolved_by"] == "ada"


def test_who_is_no_approver_is_told_who_is(enter: Enter, make_key: MakeKey, as_key: AsKey) -> None:
    session_id, [asked] = Inbox.asked_by(as_key(make_key("ada", *ALL)["key"]), INVOICE)
    inbox = enter(make_key("bob", *ALL)["key"])
    inbox.go("Waiting")
    inbox.show("pay_invoice")
    expect(inbox.answer).to_contain_text("Only somebody in finance or carol can answer this.")
    offers_nothing(inbox.request)
    inbox.press("a", "c")
    expect(inbox.undo).to_have_count(0)
    assert pending(inbox.api, asked["interrupt_id"])
    # To others it is an approval as any other.
    approver = enter(make_key("dan", *ALL, groups=("finance",))["key"])
    approver.show("pay_invoice")
    expect(approver.request).to_contain_text("Only for somebody in finance or carol to answer.")
    approver.click("Approve", approver.answer)
    approver.send()
    assert approver.said(session_id) == "paid invoice 12"
    expect(inbox.answer).to_contain_text("Approved by dan")


def test_a_decision_for_the_session_says_who_alone_could_make_it(
    enter: Enter, make_key: MakeKey, as_key: AsKey
) -> None:
    session_id, _ = Inbox.asked_by(as_key(make_key("ada", *ALL)["key"]), INVOICE)
    inbox = enter(make_key("carol", *ALL)["key"])
    inbox.show("pay_invoice")
    inbox.answer.get_by_label("For the rest of this session").check()
    inbox.click("Approve for this session", inbox.answer)
    inbox.send()
    inbox.page.goto(f"{inbox.page.url.split('#')[0]}#/sessions/{session_id}/grants")
    grant = inbox.page.get_by_role("listitem").filter(has_text="Calls of pay_invoice")
    expect(grant).to_contain_text("are approved without asking.")
    expect(grant).to_contain_text("Only for somebody in finance or carol to decide")


def test_an_approver_who_sent_it_is_told_who_else_is(enter: Enter, make_key: MakeKey, as_key: AsKey) -> None:
    carol = make_key("carol", *ALL)["key"]
    Inbox.asked_by(as_key(carol), INVOICE)
    inbox = enter(carol)
    inbox.go("Waiting")
    inbox.show("pay_invoice")
    expect(inbox.answer).to_contain_text("The message was yours, so somebody in finance has to answer this.")
    offers_nothing(inbox.request)
