"""A server with keys: the page asks for one, and lets do what it may."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, Route, expect

from tests.python.support.api import Api
from tests.python.support.served import Served
from tests.python.ui.conftest import REFUSED, Enter, MakeKey, OpenPage
from tests.python.ui.desk import call
from tests.python.ui.inbox import Inbox, pending

REFUND = call("refund", order=7, cents=500, reason="late")


@pytest.fixture(scope="module")
def desk() -> Iterator[Served]:
    with Served("tests.python.ui.desk:desk", workers=4, api_key="a key of the operator") as server:
        yield server


def test_a_wrong_key_shows_nothing(open_page: OpenPage, desk: Served, size: str) -> None:
    page = open_page(desk.url, size, REFUSED)
    page.get_by_label("Key", exact=True).fill("hitl_wrong")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text("not known here")
    expect(page.locator(".rows")).to_have_count(0)


def test_an_answer_is_by_the_key_that_signed_in(enter: Enter, make_key: MakeKey) -> None:
    inbox = enter(make_key("ada", "read", "answer")["key"])
    expect(inbox.page.locator("header")).to_contain_text("ada")
    session_id, [asked] = inbox.asked(REFUND)
    inbox.show("refund")
    inbox.click("Approve", inbox.answer)
    inbox.send()
    assert inbox.said(session_id) == "refunded 500 cents of order 7: late"
    assert inbox.api.interrupt(asked["interrupt_id"])["resolved_by"] == "ada"


def test_a_key_that_only_reads_is_offered_no_answer(enter: Enter, make_key: MakeKey) -> None:
    inbox = enter(make_key("bob", "read")["key"])
    inbox.asked(REFUND)
    inbox.go("Waiting")
    inbox.show("refund")
    expect(inbox.request).to_contain_text("late")
    expect(inbox.request).to_contain_text("Your key may read, not answer.")
    for button in inbox.request.get_by_role("button", name=re.compile("^(Approve|Edit|Reject)")).all():
        expect(button).to_be_disabled()


def test_a_cookie_outlives_the_page_and_ends_with_sign_out(enter: Enter, make_key: MakeKey) -> None:
    inbox = enter(make_key("ada", "read", "answer")["key"])
    inbox.page.reload()
    inbox.is_live()
    port = urlsplit(inbox.page.url).port
    cookie = next(cookie for cookie in inbox.page.context.cookies() if cookie["name"] == f"hitl_sign_in_{port}")
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
    inbox.click("Sign out")
    expect(inbox.page.get_by_label("Key", exact=True)).to_be_visible()
    inbox.page.reload()
    expect(inbox.page.get_by_label("Key", exact=True)).to_be_visible()


def sign_out_elsewhere(inbox: Inbox) -> Page:
    """On another page of the browser, which asks for a key then."""
    other = inbox.page.context.new_page()
    other.goto(inbox.page.url)
    other.get_by_role("button", name="Sign out").click()
    expect(other.get_by_label("Key", exact=True)).to_be_visible()
    return other


def sign_in(page: Page, key: str) -> None:
    page.get_by_label("Key", exact=True).fill(key)
    page.get_by_role("button", name="Sign in").click()
    expect(page.locator(".connection.live")).to_be_attached()


@contextmanager
def unheard(inbox: Inbox) -> Iterator[None]:
    """A stream that ends meanwhile is opened again afterwards, and not while nobody is signed in."""
    held: list[Route] = []
    holds = True
    inbox.page.route("**/events", lambda route: held.append(route) if holds else route.continue_())
    yield
    holds = False
    for route in held:
        route.continue_()


def sign_in_elsewhere(inbox: Inbox, key: str) -> None:
    """In the place of who is signed in, so fast that this page does not ask for a key."""
    with unheard(inbox):
        sign_in(sign_out_elsewhere(inbox), key)


def test_a_page_knows_who_signed_in_on_another_page_of_the_browser(enter: Enter, make_key: MakeKey) -> None:
    inbox = enter(make_key("ada", "read", "answer")["key"])
    expect(inbox.page.locator("header")).to_contain_text("ada")
    sign_in_elsewhere(inbox, make_key("bob", "read", "answer")["key"])
    # Its own stream ended with ada's sign-in, and the next one is bob's.
    expect(inbox.page.locator("header")).to_contain_text("bob")


COMES_BACK = {
    "to the window": "() => void dispatchEvent(new Event('focus'))",
    "to the tab": "() => void document.dispatchEvent(new Event('visibilitychange'))",
}
"""What a page hears that somebody comes back to."""


@pytest.mark.parametrize("comes_back", COMES_BACK.values(), ids=COMES_BACK)
def test_who_comes_back_to_a_page_that_asks_for_a_key_is_not_asked_if_they_signed_in_elsewhere(
    enter: Enter, make_key: MakeKey, comes_back: str
) -> None:
    inbox = enter(make_key("ada", "read", "answer")["key"])
    inbox.asked(REFUND)
    other = sign_out_elsewhere(inbox)
    key = inbox.page.get_by_label("Key", exact=True)
    # As long as nobody has, what is typed stays.
    key.fill("half of a key")
    with inbox.page.expect_response("**/me") as refused:
        inbox.page.evaluate(comes_back)
    assert refused.value.status == 401
    sign_in(other, make_key("bob", "read", "answer")["key"])
    expect(key).to_have_value("half of a key")
    inbox.page.evaluate(comes_back)
    expect(inbox.page.locator("header.top")).to_contain_text("bob")
    inbox.is_live()
    expect(inbox.row("refund")).to_be_visible()


def test_servers_on_one_machine_do_not_sign_each_other_out(enter: Enter, make_key: MakeKey) -> None:
    """Browsers give the cookies of a host to all its ports."""
    inbox = enter(make_key("ada", "read", "answer")["key"])
    with Served("tests.python.ui.desk:desk", workers=1, api_key="the neighbour's own key") as neighbour:
        other = inbox.page.context.new_page()
        other.goto(neighbour.url)
        other.get_by_label("Key", exact=True).fill("the neighbour's own key")
        other.get_by_role("button", name="Sign in").click()
        expect(other.locator(".connection.live")).to_be_attached()
        inbox.page.reload()
        inbox.is_live()
        other.get_by_role("button", name="Sign out").click()
        expect(other.get_by_label("Key", exact=True)).to_be_visible()
        other.close()
    inbox.page.reload()
    inbox.is_live()
    expect(inbox.page.locator("header")).to_contain_text("ada")


def test_a_revoked_key_is_asked_for_again(enter: Enter, make_key: MakeKey, api: Api) -> None:
    key = make_key("ada", "read", "answer")
    inbox = enter(key["key"])
    assert api.http.delete(f"/keys/{key['key_id']}").status_code == 204
    # Nobody has touched the page.
    expect(inbox.page.get_by_label("Key", exact=True)).to_be_visible()


def test_a_key_that_may_not_read_says_so(open_page: OpenPage, desk: Served, make_key: MakeKey) -> None:
    page = open_page(desk.url, "desktop", (*REFUSED, "403", "EventSource"))
    expect(page.get_by_text("--scope read --scope send --scope answer")).to_be_visible()
    page.get_by_label("Key", exact=True).fill(make_key("eve", "answer")["key"])
    page.get_by_role("button", name="Sign in").click()
    expect(page.locator(".rows")).to_contain_text("read")
    expect(page.get_by_text("Nothing needs you.")).to_have_count(0)


def test_signing_out_sends_what_is_held(enter: Enter, make_key: MakeKey) -> None:
    inbox = enter(make_key("ada", "read", "answer")["key"])
    session_id, [asked] = inbox.asked(REFUND)
    inbox.show("refund")
    inbox.click("Approve", inbox.answer)
    expect(inbox.undo).to_be_visible()
    inbox.click("Sign out")
    expect(inbox.page.get_by_label("Key", exact=True)).to_be_visible()
    assert inbox.said(session_id).startswith("refunded")
    assert inbox.api.interrupt(asked["interrupt_id"])["resolved_by"] == "ada"


def test_who_signs_out_with_an_answer_that_is_not_taken_is_told_and_stays(enter: Enter, make_key: MakeKey) -> None:
    inbox = enter(make_key("ada", "read", "answer")["key"], "409")
    session_id, [asked] = inbox.asked(REFUND)
    inbox.show("refund")
    # Somebody else is first, which this page does not hear in time.
    inbox.page.route("**/resume", lambda route: first(inbox, session_id, asked["interrupt_id"], route))
    inbox.click("Approve", inbox.answer)
    expect(inbox.undo).to_be_visible()
    inbox.click("Sign out")
    notices = inbox.page.locator(".toast.bad")
    expect(notices.filter(has_text="Yours was not taken.")).to_be_visible()
    expect(notices.filter(has_text="You are still signed in, for not all of your answers were taken.")).to_be_visible()
    # Nothing is held any more.
    inbox.click("Sign out")
    expect(inbox.page.get_by_label("Key", exact=True)).to_be_visible()


def first(inbox: Inbox, session_id: str, interrupt_id: str, route: Route) -> None:
    """Another answer, right before this one."""
    inbox.api.resume(session_id, interrupt_id, {"approved": False, "reason": "twice"})
    route.continue_()


@pytest.mark.parametrize(("who", "kept"), [("ada", "a long message"), ("bob", "")])
def test_a_message_outlives_the_key_of_who_writes_it_and_is_nobody_elses(
    enter: Enter, make_key: MakeKey, api: Api, who: str, kept: str
) -> None:
    key = make_key("ada", "read", "send")
    inbox = enter(key["key"])
    session_id = api.create()
    inbox.page.goto(f"{inbox.page.url.split('#')[0]}#/sessions/{session_id}")
    message = inbox.page.get_by_role("textbox", name="Message")
    message.fill("a long message")
    assert api.http.delete(f"/keys/{key['key_id']}").status_code == 204
    inbox.page.get_by_label("Key", exact=True).fill(make_key(who, "read", "send")["key"])
    inbox.click("Sign in")
    expect(message).to_have_value(kept)


def test_an_answer_of_one_person_is_not_sent_as_another_s(enter: Enter, make_key: MakeKey) -> None:
    inbox = enter(make_key("ada", "read", "answer")["key"])
    _, [asked] = inbox.asked(REFUND)
    _, [other] = inbox.asked(call("refund", order=8, cents=1, reason="r"))
    inbox.show("order: 8")
    inbox.click("Reject", inbox.answer)
    inbox.page.get_by_label("Why not?").fill("ada's reason")
    inbox.page.get_by_label("Why not?").blur()
    inbox.press("j")
    expect(inbox.request).to_contain_text("late")
    # Who is signed in now, the page is not told before the test has looked.
    held: list[Route] = []
    inbox.page.route("**/me", lambda route: held.append(route))
    inbox.click("Approve", inbox.answer)
    sign_in_elsewhere(inbox, make_key("bob", "read", "answer")["key"])
    expect(inbox.undo).to_contain_text("Waits until it is known whether you are still signed in.")
    inbox.until(lambda: held)
    for route in held:
        route.continue_()
    expect(inbox.page.locator("header.top")).to_contain_text("bob")
    expect(inbox.undo).to_have_count(0)
    assert pending(inbox.api, asked["interrupt_id"])
    # Nor is what ada has begun bob's to send, in a form that was open all the time.
    inbox.show("order: 8")
    inbox.click("Reject", inbox.answer)
    expect(inbox.page.get_by_label("Why not?")).to_have_value("")
    assert pending(inbox.api, other["interrupt_id"])


def test_a_form_that_is_open_is_empty_for_who_signs_in_next(enter: Enter, make_key: MakeKey) -> None:
    inbox = enter(make_key("ada", "read", "answer")["key"])
    inbox.asked(call("ask_anything", payload={"type": "color"}, message="Which?", schema={"type": "string"}))
    inbox.show("Which?")
    inbox.click("JSON", inbox.answer)
    field = inbox.answer.get_by_role("textbox")
    field.fill('{"half": ')
    sign_in_elsewhere(inbox, make_key("bob", "read", "answer")["key"])
    expect(inbox.page.locator("header.top")).to_contain_text("bob")
    expect(inbox.answer.get_by_role("textbox")).to_have_value("")


def test_an_answer_that_is_held_outlives_the_key_of_who_gave_it(enter: Enter, make_key: MakeKey, api: Api) -> None:
    key = make_key("ada", "read", "answer")
    inbox = enter(key["key"])
    session_id, [asked] = inbox.asked(REFUND)
    inbox.show("refund")
    inbox.click("Approve", inbox.answer)
    expect(inbox.undo).to_be_visible()
    assert api.http.delete(f"/keys/{key['key_id']}").status_code == 204
    inbox.page.get_by_label("Key", exact=True).fill(make_key("ada", "read", "answer")["key"])
    inbox.click("Sign in")
    inbox.until(lambda: not pending(api, asked["interrupt_id"]))
    assert inbox.said(session_id).startswith("refunded")
    assert inbox.api.interrupt(asked["interrupt_id"])["resolved_by"] == "ada"


def test_who_closes_a_page_that_asks_for_a_key_while_it_sends_is_asked_to_wait(
    enter: Enter, make_key: MakeKey, api: Api
) -> None:
    key = make_key("ada", "read", "answer")
    inbox = enter(key["key"], "dialog: beforeunload")
    _, [asked] = inbox.asked(REFUND)
    inbox.show("refund")
    held: list[Route] = []
    inbox.page.route("**/resume", lambda route: held.append(route), times=1)
    inbox.click("Approve", inbox.answer)
    inbox.click("Send now", inbox.undo)
    inbox.until(lambda: held)
    assert api.http.delete(f"/keys/{key['key_id']}").status_code == 204
    expect(inbox.page.get_by_label("Key", exact=True)).to_be_visible()
    with inbox.page.expect_response("**/resume"):
        held.pop().continue_()
    with inbox.page.expect_event("dialog") as asked_to_stay:
        inbox.page.evaluate("() => void setTimeout(() => location.assign('about:blank'))")
    assert asked_to_stay.value.type == "beforeunload"
    sign_in(inbox.page, make_key("ada", "read", "answer")["key"])
    inbox.until(lambda: not pending(api, asked["interrupt_id"]))
    assert inbox.api.interrupt(asked["interrupt_id"])["resolved_by"] == "ada"


def test_without_a_stream_answers_are_sent_as_well(enter: Enter, make_key: MakeKey) -> None:
    inbox = enter(make_key("ada", "read", "answer")["key"], "503", "EventSource")
    session_id, [asked] = inbox.asked(REFUND)
    inbox.page.route("**/events", lambda route: route.fulfill(status=503))
    inbox.page.reload()
    inbox.show("refund")
    expect(inbox.page.locator(".connection.broken")).to_be_attached()
    inbox.click("Approve", inbox.answer)
    inbox.until(lambda: not pending(inbox.api, asked["interrupt_id"]))
    assert inbox.said(session_id).startswith("refunded")
    assert inbox.api.interrupt(asked["interrupt_id"])["resolved_by"] == "ada"
