"""What is held is sent, and what is sent is not taken back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import Route, expect

from tests.python.ui.desk import call
from tests.python.ui.inbox import pending

if TYPE_CHECKING:
    from tests.python.ui.conftest import Open
    from tests.python.ui.inbox import Inbox

REFUND = call("refund", order=7, cents=500, reason="late")
HIDDEN = """() => { Object.defineProperty(document, "visibilityState", { value: "hidden", configurable: true });
    document.dispatchEvent(new Event("visibilitychange")); }"""
"""What a page hears that goes into the background."""
CLOSED = "() => void dispatchEvent(new PageTransitionEvent('pagehide'))"
"""What a page hears that is closed."""


def hold_back(inbox: Inbox) -> list[Route]:
    """Answers go no further than the browser, until the test lets them."""
    held: list[Route] = []
    inbox.page.route("**/resume", lambda route: held.append(route))
    return held


def test_what_is_being_sent_cannot_be_taken_back(inbox: Inbox) -> None:
    session_id, [asked] = inbox.asked(REFUND)
    inbox.show("refund")
    held = hold_back(inbox)
    inbox.click("Approve", inbox.answer)
    inbox.click("Send now", inbox.undo)
    expect(inbox.undo).to_contain_text("Sending…")
    expect(inbox.page.get_by_role("button", name="Undo")).to_have_count(0)
    inbox.press("u")
    expect(inbox.undo).to_contain_text("Sending…")
    expect(inbox.page.locator("[aria-live=polite]")).not_to_contain_text("Taken back")
    inbox.until(lambda: held)
    for route in held:
        route.continue_()
    expect(inbox.undo).to_have_count(0)
    assert inbox.said(session_id) == "refunded 500 cents of order 7: late"
    assert inbox.resolved(asked["interrupt_id"]) == {"approved": True}


def six_are_being_sent(inbox: Inbox) -> tuple[list[str], list[Route]]:
    """Six approved together, of which the first four are on their way and get no further."""
    asked = [inbox.asked(call("refund", order=order, cents=order, reason="r"))[1][0] for order in range(6)]
    expect(inbox.rows).to_have_count(6)
    inbox.row("order: 1").get_by_role("checkbox").check()
    bar = inbox.page.get_by_role("region", name="Selected requests")
    inbox.click("All like this", bar)
    inbox.click("Approve", bar)
    inbox.click("Approve 6", inbox.page.get_by_role("dialog"))
    held = hold_back(inbox)
    inbox.click("Send now", inbox.undo)
    inbox.until(lambda: len(held) >= 4)
    return [one["interrupt_id"] for one in asked], held


def test_the_rest_of_many_can_be_stopped_and_the_page_says_how_many_went_out(open_inbox: Open) -> None:
    inbox = open_inbox()
    asked, held = six_are_being_sent(inbox)
    inbox.click("Stop", inbox.undo)
    # What was stopped does not go out with a page that is left either.
    inbox.page.evaluate(HIDDEN)
    for route in held:
        route.continue_()
    expect(inbox.page.locator(".toast.plain")).to_contain_text("stopped. 4 of 6 were sent.")
    assert sum(pending(inbox.api, one) for one in asked) == 2
    expect(inbox.rows).to_have_count(2)


@pytest.mark.parametrize("leave", [HIDDEN, CLOSED], ids=["in the background", "closed"])
def test_a_page_that_is_left_while_it_sends_many_sends_the_rest_at_once(open_inbox: Open, leave: str) -> None:
    inbox = open_inbox()
    asked, held = six_are_being_sent(inbox)
    inbox.page.evaluate(leave)
    # Although none of the four has come back.
    inbox.until(lambda: len(held) == 6)
    for route in held:
        route.continue_()
    expect(inbox.undo).to_have_count(0)
    assert [inbox.resolved(one) for one in asked] == [{"approved": True}] * 6
    expect(inbox.page.locator("[aria-live=polite]")).to_contain_text("6 of 6 sent")


HURRIED = "const timer = setTimeout; window.setTimeout = (work, after) => timer(work, after >= 1000 ? 1 : after);"
"""All that waits for seconds does so for a moment."""
STOPS = {"type": "about:blank", "title": "stops", "status": 503, "code": "shutting_down", "detail": "The server stops"}


def away(route: Route) -> None:
    route.fulfill(status=503, headers={"Retry-After": "1"}, json=STOPS)


def test_an_answer_waits_for_a_server_that_starts_again(open_inbox: Open) -> None:
    inbox = open_inbox(expected=("503", "ERR_FAILED"))
    _, [asked] = inbox.asked(REFUND)
    inbox.show("refund")
    refused: list[Route] = []

    def refuse(route: Route) -> None:
        refused.append(route)
        if len(refused) == 1:
            route.abort("failed")
        else:
            away(route)

    inbox.page.route("**/resume", refuse)
    inbox.click("Approve", inbox.answer)
    inbox.click("Send now", inbox.undo)
    inbox.until(lambda: len(refused) >= 2)
    expect(inbox.undo).to_contain_text("The server does not take it up; trying again…")
    inbox.page.unroute("**/resume", refuse)
    expect(inbox.undo).to_have_count(0)
    assert inbox.resolved(asked["interrupt_id"]) == {"approved": True}
    expect(inbox.page.locator(".toast.bad")).to_have_count(0)


def test_many_answers_that_a_server_does_not_take_are_told_once_and_selected_again(open_inbox: Open) -> None:
    inbox = open_inbox(expected=("503",), script=HURRIED)
    asked = [inbox.asked(call("refund", order=order, cents=order, reason="r"))[1][0] for order in range(8)]
    expect(inbox.rows).to_have_count(8)
    inbox.row("order: 1").get_by_role("checkbox").check()
    bar = inbox.page.get_by_role("region", name="Selected requests")
    inbox.click("All like this", bar)
    inbox.click("Reject", bar)
    inbox.page.get_by_label("Why not?").fill("sale is over")
    through: list[Route] = []

    def answer(route: Route) -> None:
        if len(through) < 3:
            through.append(route)
            route.continue_()
        else:
            away(route)

    inbox.page.route("**/resume", answer)
    inbox.click("Reject 8", inbox.page.get_by_role("dialog"))
    notice = inbox.page.locator(".toast.bad")
    expect(notice).to_contain_text("3 of 8 taken, 5 not: The server stops. They are selected again.")
    expect(notice).to_have_count(1)
    assert sum(pending(inbox.api, one["interrupt_id"]) for one in asked) == 5
    expect(bar).to_contain_text("5 selected")
    inbox.page.unroute("**/resume", answer)
    inbox.click("Reject", bar)
    expect(inbox.page.get_by_label("Why not?")).to_have_value("sale is over")
    inbox.click("Reject 5", inbox.page.get_by_role("dialog"))
    inbox.until(lambda: not any(pending(inbox.api, one["interrupt_id"]) for one in asked))
    assert {inbox.resolved(one["interrupt_id"])["reason"] for one in asked} == {"sale is over"}


def test_of_many_of_which_somebody_else_was_first_with_one_the_page_says_how_many_were_taken(open_inbox: Open) -> None:
    inbox = open_inbox(expected=("409",))
    asked = [inbox.asked(call("refund", order=order, cents=order, reason="r")) for order in range(3)]
    expect(inbox.rows).to_have_count(3)
    inbox.row("order: 1").get_by_role("checkbox").check()
    bar = inbox.page.get_by_role("region", name="Selected requests")
    inbox.click("All like this", bar)
    inbox.click("Approve", bar)
    inbox.click("Approve 3", inbox.page.get_by_role("dialog"))
    session_id, [first] = asked[0]
    inbox.api.resume(session_id, first["interrupt_id"], {"approved": False})
    inbox.click("Send now", inbox.undo)
    notices = inbox.page.locator(".toast.bad")
    expect(notices.filter(has_text="Yours was not taken.")).to_be_visible()
    expect(notices.filter(has_text="Approved 3 calls of refund: 2 of 3 taken, 1 not")).to_be_visible()


def test_what_is_tried_again_can_be_stopped(open_inbox: Open) -> None:
    inbox = open_inbox(expected=("503",))
    _, [asked] = inbox.asked(REFUND)
    inbox.show("refund")
    inbox.page.route("**/resume", away)
    inbox.click("Approve", inbox.answer)
    inbox.click("Send now", inbox.undo)
    inbox.click("Stop", inbox.undo)
    expect(inbox.page.locator(".toast.bad")).to_contain_text("refund was not answered: The server stops")
    expect(inbox.rows).to_have_count(1)
    assert pending(inbox.api, asked["interrupt_id"])


def test_who_closes_a_page_whose_answer_has_to_be_sent_again_is_asked_to_wait(open_inbox: Open) -> None:
    inbox = open_inbox(expected=("503", "dialog: beforeunload"))
    _, [asked] = inbox.asked(REFUND)
    inbox.show("refund")
    inbox.page.route("**/resume", away)
    inbox.click("Approve", inbox.answer)
    inbox.click("Send now", inbox.undo)
    expect(inbox.undo).to_contain_text("trying again…")
    with inbox.page.expect_event("dialog") as asked_to_stay:
        inbox.page.evaluate("() => void setTimeout(() => location.assign('about:blank'))")
    assert asked_to_stay.value.type == "beforeunload"
    inbox.page.unroute("**/resume", away)
    expect(inbox.undo).to_have_count(0)
    assert inbox.resolved(asked["interrupt_id"]) == {"approved": True}


def test_and_so_is_who_closes_it_while_the_answer_is_on_its_way_again(open_inbox: Open) -> None:
    inbox = open_inbox(expected=("503", "dialog: beforeunload"))
    _, [asked] = inbox.asked(REFUND)
    inbox.show("refund")
    held = hold_back(inbox)
    inbox.click("Approve", inbox.answer)
    inbox.click("Send now", inbox.undo)
    inbox.until(lambda: held)
    away(held.pop())
    # The server may refuse this one too.
    inbox.until(lambda: held)
    expect(inbox.undo).to_contain_text("trying again…")
    expect(inbox.undo.get_by_role("button", name="Stop")).to_be_visible()
    with inbox.page.expect_event("dialog") as asked_to_stay:
        inbox.page.evaluate("() => void setTimeout(() => location.assign('about:blank'))")
    assert asked_to_stay.value.type == "beforeunload"
    held.pop().continue_()
    expect(inbox.undo).to_have_count(0)
    assert inbox.resolved(asked["interrupt_id"]) == {"approved": True}


def test_a_page_in_the_background_sends_what_it_holds(inbox: Inbox) -> None:
    session_id, [asked] = inbox.asked(REFUND)
    inbox.show("refund")
    inbox.click("Approve", inbox.answer)
    inbox.page.evaluate(HIDDEN)
    expect(inbox.undo).to_have_count(0)
    assert inbox.said(session_id).startswith("refunded")
    assert inbox.resolved(asked["interrupt_id"]) == {"approved": True}


def test_and_so_does_one_that_is_closed(open_inbox: Open) -> None:
    inbox = open_inbox()
    _, [asked] = inbox.asked(REFUND)
    inbox.show("refund")
    inbox.click("Approve", inbox.answer)
    expect(inbox.undo).to_be_visible()
    inbox.page.goto("about:blank")
    inbox.until(lambda: not pending(inbox.api, asked["interrupt_id"]))
    assert inbox.resolved(asked["interrupt_id"]) == {"approved": True}


def test_who_closes_a_page_with_more_than_it_can_take_along_is_asked_to_wait(open_inbox: Open) -> None:
    inbox = open_inbox(expected=("dialog: beforeunload",))
    _, [asked] = inbox.asked(call("ask_anything", payload={"type": "essay"}, message="Write"))
    inbox.show("Write")
    text = "long " * 20_000
    inbox.page.get_by_role("textbox", name="Answer", exact=True).fill(text)
    inbox.click("Answer", inbox.answer)
    expect(inbox.undo).to_be_visible()
    with inbox.page.expect_event("dialog") as asked_to_stay:
        inbox.page.evaluate("() => void setTimeout(() => location.assign('about:blank'))")
    assert asked_to_stay.value.type == "beforeunload"
    # It stays, and meanwhile the answer goes out.
    expect(inbox.page.locator(".toast.plain")).to_contain_text("too large for the browser")
    expect(inbox.undo).to_have_count(0)
    assert inbox.resolved(asked["interrupt_id"]) == text


def test_and_so_is_who_closes_one_with_more_answers_than_that(open_inbox: Open) -> None:
    inbox = open_inbox(expected=("dialog: beforeunload",))
    session_id, asked = inbox.asked(*(call("refund", order=order, cents=order, reason="r") for order in range(210)))
    expect(inbox.page.get_by_role("navigation", name="Boxes").get_by_role("link", name="Needs you")).to_contain_text(
        "210"
    )
    inbox.rows.first.get_by_role("checkbox").check()
    bar = inbox.page.get_by_role("region", name="Selected requests")
    inbox.click("All like this", bar)
    inbox.click("Approve", bar)
    inbox.click("Approve 210", inbox.page.get_by_role("dialog"))
    with inbox.page.expect_event("dialog") as asked_to_stay:
        inbox.page.evaluate("() => void setTimeout(() => location.assign('about:blank'))")
    assert asked_to_stay.value.type == "beforeunload"
    expect(inbox.undo).to_have_count(0)
    assert len(asked) == 210
    assert inbox.said(session_id).startswith("refunded 0 cents")
    expect(inbox.page.locator(".toast.bad")).to_have_count(0)


@pytest.mark.parametrize("page", ["Inbox", "Sessions"])
def test_u_takes_back_wherever_one_is(open_inbox: Open, page: str) -> None:
    inbox = open_inbox()
    _, [asked] = inbox.asked(REFUND)
    inbox.show("refund")
    inbox.click("Approve", inbox.answer)
    expect(inbox.undo).to_be_visible()
    inbox.page.get_by_role("link", name=page, exact=True).click()
    inbox.press("u")
    expect(inbox.undo).to_have_count(0)
    expect(inbox.answer).to_be_visible()
    assert pending(inbox.api, asked["interrupt_id"])


def test_an_enter_that_ends_a_composed_word_sends_nothing(open_inbox: Open) -> None:
    """With an input method, Enter takes the word that is composed."""
    inbox = open_inbox()
    inbox.asked(REFUND)
    inbox.show("refund")
    inbox.press("r")
    reason = inbox.page.get_by_label("Why not?")
    reason.dispatch_event("keydown", {"key": "Enter", "isComposing": True, "bubbles": True})
    # Safari says so after the word was taken, in its older way.
    reason.dispatch_event("keydown", {"key": "Enter", "keyCode": 229, "bubbles": True})
    expect(reason).to_be_visible()
    expect(inbox.undo).to_have_count(0)
    reason.press("Enter")
    expect(inbox.undo).to_contain_text("Rejected refund")


def test_the_focus_goes_on_to_the_next_request(open_inbox: Open) -> None:
    inbox = open_inbox()
    for order in range(2):
        inbox.asked(call("refund", order=order, cents=order, reason="r"))
    inbox.show("order: 1")
    inbox.click("Approve", inbox.answer)
    expect(inbox.request).to_contain_text("order0")
    expect(inbox.request.get_by_role("heading", level=1)).to_be_focused()


def test_a_form_that_was_left_open_does_not_take_the_focus(open_inbox: Open) -> None:
    inbox = open_inbox()
    for order in range(2):
        inbox.asked(call("refund", order=order, cents=order, reason="r"))
    inbox.show("order: 1")
    inbox.press("e")
    expect(inbox.page.get_by_label("order")).to_be_focused()
    inbox.page.get_by_label("order").blur()
    inbox.press("j")
    expect(inbox.answer.get_by_role("button", name="Approve", exact=False).first).to_be_visible()
    inbox.press("k")
    expect(inbox.page.get_by_label("order")).to_be_visible()
    expect(inbox.page.get_by_label("order")).not_to_be_focused()
