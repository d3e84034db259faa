"""Claiming, snoozing, and what a turn has been through."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from playwright.sync_api import APIResponse, Route, expect

from tests.python.ui.conftest import PATIENT
from tests.python.ui.desk import call

if TYPE_CHECKING:
    from tests.python.ui.conftest import Open
    from tests.python.ui.inbox import Inbox

OTHER_TURN = re.compile(r"(?<=cursor=)\w{8}")
REFUND = call("refund", order=7, cents=500, reason="late")


def test_who_claims_says_their_name_once_and_others_cannot_answer_meanwhile(inbox: Inbox) -> None:
    session_id, [asked] = inbox.asked(REFUND)
    inbox.show("refund")
    inbox.click("Claim", inbox.answer)
    inbox.page.get_by_label("Your name").fill("Ada")
    inbox.click("Claim", inbox.answer.locator("form"))
    expect(inbox.answer).to_contain_text("You work on this until")
    refused = inbox.api.resume(session_id, asked["interrupt_id"], {"approved": False})
    assert refused.json()["code"] == "interrupt_claimed"
    inbox.click("Approve", inbox.answer)
    inbox.send()
    assert inbox.resolved(asked["interrupt_id"]) == {"approved": True}


def test_what_somebody_else_has_claimed_waits_until_they_let_go(inbox: Inbox) -> None:
    _, [asked] = inbox.asked(REFUND)
    expect(inbox.rows).to_have_count(1)
    claim = f"/interrupts/{asked['interrupt_id']}/claim"
    assert inbox.api.post(claim, {"as": "Bob"}).status_code == 200
    expect(inbox.rows).to_have_count(0)
    inbox.go("Waiting")
    expect(inbox.row("refund")).to_contain_text("with Bob")
    inbox.show("refund")
    expect(inbox.answer).to_contain_text("Bob works on this until")
    inbox.api.http.delete(claim, params={"as": "Bob"})
    expect(inbox.answer).not_to_contain_text("Bob")


def test_a_claim_is_made_anew_as_long_as_somebody_works_on_it(open_inbox: Open) -> None:
    inbox = open_inbox()
    inbox.page.evaluate("localStorage.setItem('hitl-name', 'Ada')")
    _, [asked] = inbox.asked(REFUND)
    itself = f"/interrupts/{asked['interrupt_id']}"
    until = inbox.api.post(f"{itself}/claim", {"as": "Ada", "seconds": 60}).json()["claimed_until"]
    inbox.show("refund")
    expect(inbox.answer).to_contain_text("You work on this until")
    inbox.press("e")
    inbox.until(lambda: inbox.api.get(itself).json()["claimed_until"] > until)


AHEAD = "const clock = Date.now; window.ahead = 0; Date.now = () => clock() + window.ahead;"
"""The page's clock goes ahead by what the test says, in milliseconds."""


def test_who_has_stopped_is_told_that_a_claim_has_ended(open_inbox: Open) -> None:
    inbox = open_inbox(script=PATIENT + AHEAD)
    inbox.page.evaluate("localStorage.setItem('hitl-name', 'Ada')")
    _, [asked] = inbox.asked(REFUND)
    inbox.show("refund")
    expect(inbox.answer.get_by_role("button", name="Claim")).to_be_visible()
    claimed = inbox.api.post(f"/interrupts/{asked['interrupt_id']}/claim", {"as": "Ada", "seconds": 60})
    assert claimed.status_code == 200, claimed.text
    expect(inbox.answer).to_contain_text("You work on this until")
    inbox.page.evaluate("window.ahead = 60_000")
    expect(inbox.page.locator(".toast")).to_contain_text("Your claim of refund has ended")


def test_a_reply_that_is_older_than_what_was_heard_meanwhile_is_asked_for_again(open_inbox: Open) -> None:
    inbox = open_inbox()
    _, [asked] = inbox.asked(REFUND)
    itself = f"/interrupts/{asked['interrupt_id']}"
    assert inbox.api.post(f"{itself}/claim", {"as": "Bob"}).status_code == 200
    inbox.go("Waiting")
    expect(inbox.row("refund")).to_contain_text("with Bob")
    held: list[tuple[Route, APIResponse]] = []
    inbox.page.route(f"**{itself}", lambda route: held.append((route, route.fetch())))
    inbox.show("refund")
    expect(inbox.answer).to_contain_text("Bob works on this until")
    # Shown from the list, perhaps: the request's own reply, which Bob is still in, is awaited before he lets go.
    inbox.until(lambda: held)
    inbox.api.http.delete(f"{itself}/claim", params={"as": "Bob"})
    expect(inbox.answer).not_to_contain_text("Bob")
    [(route, response)] = held
    route.fulfill(response=response)
    # It is asked for again, and now without him.
    inbox.until(lambda: len(held) == 2)
    route, response = held[1]
    route.fulfill(response=response)
    expect(inbox.answer).not_to_contain_text("Bob")


def test_a_snoozed_request_waits_and_comes_back(inbox: Inbox) -> None:
    _, [asked] = inbox.asked(REFUND)
    inbox.show("refund")
    inbox.click("Snooze", inbox.answer)
    inbox.click("Show again", inbox.answer)
    # A choice alone, which a key on the keyboard makes too, does nothing yet.
    inbox.page.get_by_label("Snooze for").select_option("1 day")
    expect(inbox.answer).not_to_contain_text("Snoozed")
    inbox.click("Snooze", inbox.answer)
    expect(inbox.answer).to_contain_text("Snoozed")
    inbox.go("Waiting")
    expect(inbox.row("refund")).to_contain_text("snoozed, 23 h left")
    assert inbox.api.interrupt(asked["interrupt_id"])["status"] == "pending"


def test_the_journal_of_a_turn_is_a_timeline(inbox: Inbox) -> None:
    session_id, _ = inbox.asked(REFUND)
    inbox.page.goto(f"{inbox.page.url.split('#')[0]}#/sessions/{session_id}/journal")
    timeline = inbox.page.get_by_role("region", name="Journal of the newest turn")
    expect(timeline.get_by_role("listitem").first).to_contain_text("start")
    expect(timeline.get_by_role("listitem").last).to_be_visible()
    expect(timeline).to_contain_text("ask")


def test_a_journal_that_another_turn_has_taken_the_place_of_is_read_anew(open_inbox: Open) -> None:
    inbox = open_inbox(expected=("422",))
    session_id, _ = inbox.asked(REFUND)
    short = lambda route: route.continue_(url=f"{route.request.url}?limit=2")  # noqa: E731
    inbox.page.route("**/journal", short)
    inbox.page.goto(f"{inbox.page.url.split('#')[0]}#/sessions/{session_id}/journal")
    timeline = inbox.page.get_by_role("region", name="Journal of the newest turn")
    expect(timeline.get_by_role("listitem")).to_have_count(2)
    # The page has not heard of the next turn yet.
    inbox.page.route(
        "**/journal?*cursor=*", lambda route: route.continue_(url=OTHER_TURN.sub("0" * 8, route.request.url))
    )
    inbox.page.unroute("**/journal", short)
    inbox.click("Show more", timeline)
    expect(timeline.get_by_role("button", name="Show more")).to_have_count(0)
    expect(timeline.get_by_role("listitem").nth(2)).to_be_visible()
    expect(timeline.locator(".number").first).to_have_text("0")
    expect(inbox.page.locator(".toast.bad")).to_have_count(0)


def test_the_message_of_the_open_turn_is_beside_its_request(inbox: Inbox) -> None:
    inbox.asked(REFUND)
    inbox.show("refund")
    expect(inbox.request.get_by_role("region", name="Conversation")).to_contain_text('"order": 7')
