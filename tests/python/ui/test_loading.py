"""What the page says while it does not know everything yet."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING

from playwright.sync_api import Route, expect

from tests.python.ui.conftest import PATIENT
from tests.python.ui.desk import call
from tests.python.ui.test_sessions import HEARS_LATE

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Page

    from tests.python.support.served import Served
    from tests.python.ui.conftest import Open
    from tests.python.ui.inbox import Inbox

REFUND = call("refund", order=7, cents=500, reason="late")


def test_nothing_is_said_to_be_there_before_it_was_looked_for(open_inbox: Open) -> None:
    inbox = open_inbox()
    held: list[Route] = []
    # The first thing that a page asks for: it has not even begun to look for requests.
    inbox.page.route("**/openapi.json", lambda route: held.append(route))
    inbox.page.reload()
    expect(inbox.page.locator(".rows")).to_contain_text("Loading…")
    expect(inbox.page.get_by_text("Nothing needs you.")).to_have_count(0)
    inbox.until(lambda: held)
    for route in held:
        route.continue_()
    expect(inbox.page.get_by_text("Nothing needs you.")).to_be_visible()


def test_the_list_is_there_without_the_stream(open_inbox: Open) -> None:
    inbox = open_inbox(expected=("503", "EventSource"))
    inbox.asked(REFUND)
    inbox.page.route("**/events", lambda route: route.fulfill(status=503))
    inbox.page.reload()
    expect(inbox.row("refund")).to_be_visible()
    expect(inbox.page.locator(".connection.broken")).to_be_attached()


def test_it_is_looked_for_on_later_pages_too(inbox: Inbox) -> None:
    """Boxes are told apart by the page, so a page of the list may have nothing for this one."""
    inbox.asked(REFUND)
    for order in range(2):
        _, [asked] = inbox.asked(call("refund", order=order, cents=1, reason="put off"))
        inbox.api.post(f"/interrupts/{asked['interrupt_id']}/snooze", {"seconds": 3600})
    small = lambda route: route.continue_(url=route.request.url.replace("limit=200", "limit=1"))  # noqa: E731
    inbox.page.route("**/interrupts?*", small)
    inbox.page.reload()
    expect(inbox.row("order: 7")).to_be_visible()
    expect(inbox.rows).to_have_count(1)
    inbox.go("Waiting")
    expect(inbox.rows).to_have_count(2)


def test_a_request_goes_with_its_session(inbox: Inbox) -> None:
    session_id, [asked] = inbox.asked(REFUND)
    inbox.asked(call("refund", order=8, cents=1, reason="stays"))
    expect(inbox.rows).to_have_count(2)
    # What it asks for after the session is gone is rightly refused: nothing is on its way then. The list's record is
    # shown before the request's own reply comes.
    with inbox.page.expect_response(f"**/interrupts/{asked['interrupt_id']}"):
        inbox.show("order: 7")
    expect(inbox.page.get_by_text("Loading…")).to_have_count(0)
    inbox.api.delete(session_id)
    expect(inbox.answer).to_contain_text("Cancelled")
    inbox.go("Needs you")
    expect(inbox.rows).to_have_count(1)
    expect(inbox.rows).to_contain_text("order: 8")


def test_what_is_settled_comes_into_an_empty_list_of_what_is_done(inbox: Inbox) -> None:
    session_id, [asked] = inbox.asked(REFUND)
    inbox.go("Done")
    expect(inbox.page.get_by_text("Nothing yet.")).to_be_visible()
    inbox.api.resume(session_id, asked["interrupt_id"], {"approved": True})
    expect(inbox.row("refund")).to_contain_text("approved")


def test_the_open_request_is_looked_at_again_after_a_broken_connection(open_inbox: Open) -> None:
    inbox = open_inbox(expected=("ERR_INTERNET_DISCONNECTED", "Failed to load"))
    session_id, [asked] = inbox.asked(REFUND)
    inbox.show("refund")
    inbox.page.context.set_offline(True)
    inbox.page.evaluate("dispatchEvent(new Event('offline'))")
    inbox.api.resume(session_id, asked["interrupt_id"], {"approved": True})
    inbox.page.context.set_offline(False)
    expect(inbox.answer).to_contain_text("Approved")


def test_a_conversation_that_cannot_be_read_is_not_an_empty_one(open_inbox: Open) -> None:
    inbox = open_inbox(expected=("500",))
    inbox.asked(REFUND)
    inbox.page.route("**/messages", lambda route: route.fulfill(status=500, json={"code": "x", "detail": "No disk"}))
    inbox.show("refund")
    conversation = inbox.request.get_by_role("region", name="Conversation")
    expect(conversation).to_contain_text("No disk")
    expect(conversation).not_to_contain_text("Nothing was said")


def test_what_could_not_be_read_beside_a_request_is_asked_for_again(open_inbox: Open) -> None:
    """By whoever presses the button, and by the page itself once the server is back."""
    inbox = open_inbox(expected=("500", "503", "EventSource"))
    done, [asked] = inbox.asked(REFUND)
    inbox.api.resume(done, asked["interrupt_id"], {"approved": True})
    inbox.said(done)
    inbox.asked(call("refund", order=8, cents=1, reason="now"))
    inbox.page.route("**/events", lambda route: route.fulfill(status=503))
    broken = lambda route: route.fulfill(status=500, json={"code": "x", "detail": "No disk"})  # noqa: E731
    unreadable = ("**/messages", "**/interrupts?*status=resolved*")
    for url in unreadable:
        inbox.page.route(url, broken)
    inbox.page.reload()
    inbox.show("order: 8")
    beside = [inbox.request.get_by_role("region", name=name) for name in ("Conversation", "Earlier decisions")]
    for region in beside:
        expect(region).to_contain_text("No disk")
        inbox.click("Try again", region)
        expect(region).to_contain_text("No disk")
    inbox.page.unroute(unreadable[0])
    inbox.click("Try again", beside[0])
    expect(beside[0]).to_contain_text("waits for an answer")
    inbox.page.unroute(unreadable[1])
    inbox.page.unroute("**/events")
    expect(beside[1]).to_contain_text("order: 7")


def test_what_was_said_is_read_once_however_much_its_turn_does(open_inbox: Open) -> None:
    inbox = open_inbox(script=PATIENT + HEARS_LATE)
    session_id = inbox.api.create()
    refunds = [call("refund", order=order, cents=order, reason="r") for order in (1, 2)]
    plan = [[refunds[0]], [call("find_order", number=1)], [refunds[1]]]
    [asked] = inbox.api.settled(session_id, json.dumps(plan), 1)["interrupts"]
    inbox.show("order: 1")
    beside = inbox.request.get_by_role("region", name="Conversation")
    expect(beside.locator(".call")).to_have_count(1)
    inbox.page.evaluate("window.late = []")
    inbox.api.resume(session_id, asked["interrupt_id"], {"approved": True})
    [other] = inbox.api.wait(session_id)["interrupts"]
    read: list[str] = []
    inbox.page.on("response", lambda response: read.append(response.url.rpartition("/")[2].partition("?")[0]))
    # It has not heard the end of this turn when it hears its steps, one by one.
    inbox.until(lambda: inbox.page.evaluate("window.late.length") >= 6)
    for _ in range(6):
        with inbox.page.expect_response("**/journal?*"):
            inbox.page.evaluate("window.late.shift()()")
    expect(beside.locator(".call")).to_have_count(3)
    assert read.count("messages") == 1
    # And again once there is more.
    inbox.page.evaluate("window.hear()")
    with inbox.page.expect_response("**/messages"):
        inbox.api.resume(session_id, other["interrupt_id"], {"approved": True})
    expect(beside).to_contain_text("refunded 2 cents")


# --- nothing, slow, broken ---


def test_a_first_visit_says_what_this_is_and_how_to_see_something_wait(inbox: Inbox) -> None:
    expect(inbox.page.get_by_text("Agents stop here and ask a person").locator("visible=true")).to_have_count(1)
    command = inbox.page.get_by_label("Command").locator("visible=true")
    expect(command).to_have_text(f"hitl chat {inbox.page.url.split('/#')[0].rstrip('/')}")
    links = inbox.page.get_by_role("link", name="The HTTP API of this server").locator("visible=true")
    assert inbox.page.request.get(inbox.page.url.split("#")[0] + "docs").ok
    expect(links).to_have_attribute("href", "/docs")
    # Not once there is something to do.
    session_id, _ = inbox.asked(REFUND)
    expect(inbox.row("order: 7")).to_be_visible()
    expect(inbox.page.get_by_text("Agents stop here and ask a person").locator("visible=true")).to_have_count(0)
    inbox.api.delete(session_id)
    expect(inbox.rows).to_have_count(0)
    inbox.page.get_by_role("button", name="Start a session").locator("visible=true").click()
    expect(inbox.page.get_by_role("textbox", name="Message")).to_be_visible()


def test_the_command_of_a_first_visit_makes_something_wait(open_inbox: Open) -> None:
    inbox = open_inbox()
    command = inbox.page.get_by_label("Command").locator("visible=true").inner_text()
    plan = json.dumps([[REFUND]])
    done = subprocess.run(
        [sys.executable, "-m", *shlex.split(command), plan], capture_output=True, text=True, check=False
    )
    assert done.returncode == 6, done.stderr  # something waits for a person
    expect(inbox.row("order: 7")).to_be_visible()


def test_nobody_is_told_to_start_what_their_key_cannot(open_inbox: Open) -> None:
    inbox = open_inbox()
    me = {"name": "eve", "scopes": ["read"], "groups": [], "authentication": True, "prevent_self_approval": False}
    me |= {"max_body": 1_048_576}
    inbox.page.route("**/me", lambda route: route.fulfill(json=me))
    inbox.page.reload()
    expect(inbox.page.get_by_text("Agents stop here and ask a person").locator("visible=true")).to_have_count(1)
    expect(inbox.page.get_by_role("button", name="Start a session").locator("visible=true")).to_have_count(0)


LATER = """
const timer = setTimeout; window.later = [];
window.setTimeout = (work, after) => after >= 4000 ? (window.later.push(work), 0) : timer(work, after);"""
"""What is to happen after some seconds happens when the test says so."""


def test_a_list_that_takes_long_says_so(open_inbox: Open) -> None:
    inbox = open_inbox(script=LATER)
    held: list[Route] = []
    inbox.page.route("**/interrupts?*", lambda route: held.append(route))
    inbox.page.reload()
    expect(inbox.page.locator(".rows")).to_have_text("Loading…")
    inbox.until(lambda: inbox.page.evaluate("window.later.length"))
    inbox.page.evaluate("for (const work of window.later) work()")
    expect(inbox.page.locator(".rows")).to_contain_text("The list takes long.")


def test_what_could_not_be_read_is_asked_for_again(open_inbox: Open, size: str) -> None:
    inbox = open_inbox(size, expected=("503", "EventSource"))
    _, [asked] = inbox.asked(REFUND)
    # A stream that comes back asks for all of it by itself.
    inbox.page.route("**/events", lambda route: route.fulfill(status=503))
    gone = {"code": "store_unavailable", "detail": "The store cannot be written"}
    base = inbox.page.url.split("#")[0]
    for path, pattern, shown in (
        (f"inbox/needs/{asked['interrupt_id']}", "**/interrupts/*", inbox.answer),
        (f"sessions/{asked['session_id']}", f"**/sessions/{asked['session_id']}", inbox.page.get_by_role("log")),
    ):
        inbox.page.goto("about:blank")
        inbox.page.route(pattern, lambda route: route.fulfill(status=503, json=gone))
        # The list, which has the record too, does not come.
        inbox.page.route("**/interrupts?*", lambda route: route.fulfill(status=503, json=gone))
        inbox.page.goto(f"{base}#/{path}")
        alert = inbox.page.get_by_role("alert").filter(has_text="The store cannot be written")
        expect(alert).to_be_visible()
        if path.startswith("inbox"):
            expect(inbox.page.locator(".foot .wrong")).to_have_text("The store cannot be written")
        inbox.page.unroute(pattern)
        inbox.page.unroute("**/interrupts?*")
        alert.get_by_role("button", name="Try again").click()
        expect(shown).to_be_visible()


def test_the_head_of_a_phone_has_room_for_what_is_wrong(open_inbox: Open) -> None:
    inbox = open_inbox("phone", expected=("503", "EventSource"))
    height = inbox.page.locator(".top nav a").first.bounding_box()
    inbox.page.route("**/events", lambda route: route.fulfill(status=503))
    inbox.page.reload()
    expect(inbox.page.locator(".connection.broken")).to_be_visible()
    again = inbox.page.locator(".top nav a").first.bounding_box()
    assert height is not None
    assert again is not None
    assert again["height"] == height["height"]
    assert inbox.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_the_page_of_the_api_is_as_wide_as_the_window(open_page: Callable[..., Page], desk: Served, size: str) -> None:
    page = open_page(f"{desk.url}/docs", size)
    expect(page.get_by_role("main").get_by_text("Get a session, or wait for it")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
