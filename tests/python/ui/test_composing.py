"""The next message: sent once, kept until it is, and written where the person is."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import Route, expect

from tests.python.ui.desk import call
from tests.python.ui.test_attaching import NOTES, Composer, attachment

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.python.ui.conftest import Open


def lose(route: Route) -> None:
    """The server has it, and its reply comes nowhere."""
    route.fetch()
    route.abort()


def in_doubt(route: Route) -> None:
    """The store has it, and the server does not know."""
    route.fetch()
    route.fulfill(status=503, json={"code": "store_unavailable", "detail": "Store unavailable"})


def unread(route: Route) -> None:
    """What was said in the session cannot be read."""
    if route.request.method == "GET":
        route.abort()
    else:
        route.fallback()


@pytest.mark.parametrize(
    ("fail", "reason"), [(lose, "The server cannot be reached"), (in_doubt, "Store unavailable")], ids=["lost", "503"]
)
def test_a_message_whose_reply_was_lost_is_sent_again_and_taken_once(
    open_inbox: Open, fail: Callable[[Route], None], reason: str
) -> None:
    inbox = open_inbox(expected=("ERR_FAILED", "503"))
    composer = Composer(inbox)
    composer.choose(NOTES)
    expect(composer.chosen).to_have_count(1)
    composer.message.fill("transfer 100")
    inbox.page.route("**/messages", fail, times=1)
    inbox.page.route("**/messages", unread)
    composer.send.click()
    expect(inbox.page.locator(".toast.bad")).to_contain_text(f"The message may not have been sent: {reason}.")
    inbox.until(lambda: inbox.api.get(f"/sessions/{composer.session_id}/messages").json())  # it was
    expect(composer.message).to_have_value("transfer 100")
    expect(composer.chosen).to_have_count(1)
    expect(composer.send).to_be_enabled()
    composer.send.click()
    expect(composer.message).to_have_value("")
    assert composer.sent() == [{"role": "user", "content": "transfer 100", "attachments": [attachment(NOTES)]}]


def test_a_message_that_is_seen_to_have_arrived_is_no_draft_any_more(open_inbox: Open) -> None:
    inbox = open_inbox(expected=("ERR_FAILED",))
    composer = Composer(inbox)
    composer.choose(NOTES)
    expect(composer.chosen).to_have_count(1)
    composer.message.fill("transfer 100")
    inbox.page.route("**/messages", lose, times=1)
    composer.send.click()
    expect(inbox.page.get_by_role("log")).to_contain_text("You said: transfer 100")
    expect(composer.message).to_have_value("")
    expect(composer.chosen).to_have_count(0)
    # What is said again on purpose is another message.
    for _ in range(2):
        composer.message.fill("transfer 100")
        composer.send.click()
        expect(composer.message).to_have_value("")
        # The next one is taken once the turn of this one is over.
        composer.sent()
    message = {"role": "user", "content": "transfer 100"}
    assert composer.sent() == [{**message, "attachments": [attachment(NOTES)]}, message, message]


def test_what_is_changed_after_a_lost_reply_is_another_message(open_inbox: Open) -> None:
    inbox = open_inbox(expected=("ERR_FAILED",))
    composer = Composer(inbox)
    composer.message.fill("transfer 100")
    inbox.page.route("**/messages", lose, times=1)
    composer.send.click()
    expect(inbox.page.get_by_role("log")).to_contain_text("You said: transfer 100")
    composer.message.fill("transfer 200")
    composer.send.click()
    expect(composer.message).to_have_value("")
    assert [message["content"] for message in composer.sent()] == ["transfer 100", "transfer 200"]


def test_a_message_that_was_refused_was_not_sent(open_inbox: Open) -> None:
    inbox = open_inbox(expected=("503",))
    composer = Composer(inbox)
    full = {"code": "queue_full", "detail": "The queue of turns is full"}
    inbox.page.route("**/messages", lambda route: route.fulfill(status=503, json=full), times=1)
    composer.message.fill("hello")
    composer.send.click()
    expect(inbox.page.locator(".toast.bad span")).to_have_text("The queue of turns is full")
    expect(composer.message).to_have_value("hello")


def test_what_is_typed_while_a_message_is_on_its_way_stays(open_inbox: Open) -> None:
    inbox = open_inbox()
    composer = Composer(inbox)
    held: list[Route] = []
    inbox.page.route("**/messages", lambda route: held.append(route), times=1)
    composer.message.fill("first")
    composer.message.press("Enter")
    inbox.until(lambda: held)
    composer.message.press_sequentially(" and then")
    # Nor does it go out with a second press, or with a look elsewhere.
    expect(composer.send).to_be_disabled()
    inbox.page.get_by_role("link", name="Journal").click()
    inbox.page.get_by_role("link", name="Conversation").click()
    expect(composer.send).to_be_disabled()
    held[0].continue_()
    expect(inbox.page.get_by_role("log")).to_contain_text("You said: first")
    expect(composer.send).to_be_enabled()
    expect(composer.message).to_have_value("first and then")
    assert [message["content"] for message in composer.sent()] == ["first"]


def test_what_is_begun_is_kept_for_each_session_while_one_looks_elsewhere(open_inbox: Open) -> None:
    inbox = open_inbox()
    composer = Composer(inbox)
    composer.message.fill("a long message")
    composer.choose(NOTES)
    expect(composer.chosen).to_have_count(1)
    inbox.page.get_by_role("link", name="Journal").click()
    inbox.page.get_by_role("link", name="Conversation").click()
    expect(composer.message).to_have_value("a long message")
    expect(composer.chosen).to_have_text(["notes.txt 10 bytes✕"])
    other = Composer(inbox)
    expect(other.message).to_have_value("")
    expect(other.chosen).to_have_count(0)
    inbox.page.go_back()
    expect(composer.message).to_have_value("a long message")
    composer.send.click()
    expect(composer.message).to_have_value("")
    assert composer.sent() == [{"role": "user", "content": "a long message", "attachments": [attachment(NOTES)]}]


def test_a_turn_that_ends_takes_no_focus_from_where_somebody_writes(open_inbox: Open, tmp_path: Path) -> None:
    inbox = open_inbox()
    composer = Composer(inbox)
    gate = tmp_path / "go"
    composer.message.fill(f"pause until {gate}: hello")
    composer.message.press("Enter")
    expect(inbox.page.locator(".session .status")).to_have_text("running")
    search = inbox.page.get_by_label("Search sessions")
    search.press_sequentially("some")
    gate.touch()
    expect(inbox.page.locator(".session .status")).to_have_text("idle")
    # What follows a change of the page comes after it is drawn.
    inbox.page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    expect(search).to_be_focused()
    inbox.page.keyboard.type(" words")
    expect(search).to_have_value("some words")
    expect(composer.message).to_have_value("")


def test_the_focus_goes_on_to_the_message_once_the_request_is_answered(open_inbox: Open) -> None:
    inbox = open_inbox()
    composer = Composer(inbox)
    composer.message.fill(json.dumps([[call("refund", order=7, cents=500, reason="late")]]))
    composer.message.press("Enter")
    inbox.click("Approve", inbox.page.get_by_role("region", name="Request: refund"))
    inbox.send()
    expect(inbox.page.locator(".session .status")).to_have_text("idle")
    expect(composer.message).to_be_focused()


def test_what_the_page_says_covers_nothing_of_the_next_message(open_inbox: Open, size: str) -> None:
    inbox = open_inbox(size, expected=("409",))
    composer = Composer(inbox)
    # It grows with what is attached.
    composer.choose(NOTES)
    expect(composer.chosen).to_have_count(1)
    inbox.page.route("**/messages", lambda route: route.fulfill(status=409, json={"code": "x", "detail": "Not now"}))
    composer.send.click()
    toast = inbox.page.locator(".toast.bad")
    expect(toast).to_be_visible()
    said, form = toast.bounding_box(), inbox.page.locator(".composer").bounding_box()
    assert said is not None
    assert form is not None
    assert said["y"] + said["height"] <= form["y"]
    # Elsewhere it stands where it stood.
    inbox.page.get_by_role("link", name="Journal").click()
    expect(inbox.page.locator(".composer")).to_have_count(0)
    below = inbox.page.evaluate("innerHeight - document.querySelector('.toast.bad').getBoundingClientRect().bottom")
    assert below <= 16
