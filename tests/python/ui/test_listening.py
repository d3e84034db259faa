"""The page hears what happens while somebody looks, and no longer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from playwright.sync_api import expect

from tests.python.ui.desk import call
from tests.python.ui.test_sending import HIDDEN

if TYPE_CHECKING:
    from tests.python.ui.conftest import Open

REFUND = call("refund", order=7, cents=500, reason="late")
STREAMS = """
const timer = setTimeout, Source = EventSource;
window.setTimeout = (work, after) => timer(work, after >= 30000 ? 1 : after);
window.streams = [];
window.EventSource = class extends Source { constructor(url) { super(url); window.streams.push(this); } };"""
"""Half a minute is over at once, and all streams of the page can be told."""
SEEN = """() => { Object.defineProperty(document, "visibilityState", { value: "visible", configurable: true });
    document.dispatchEvent(new Event("visibilitychange")); }"""
STATES = "() => window.streams.map((stream) => stream.readyState)"
OPEN, CLOSED = 1, 2


def test_a_page_that_nobody_sees_keeps_no_stream_and_one_that_is_seen_again_has_one(open_inbox: Open) -> None:
    inbox = open_inbox(script=STREAMS)
    inbox.page.evaluate(HIDDEN)
    inbox.until(lambda: inbox.page.evaluate(STATES) == [CLOSED])
    inbox.asked(REFUND)
    expect(inbox.rows).to_have_count(0)
    inbox.page.evaluate(SEEN)
    expect(inbox.row("refund")).to_be_visible()
    inbox.until(lambda: inbox.page.evaluate(STATES) == [CLOSED, OPEN])


def test_a_stream_that_may_have_fallen_silent_is_opened_anew(open_inbox: Open) -> None:
    inbox = open_inbox(script=STREAMS)
    inbox.page.evaluate("dispatchEvent(new Event('online'))")
    inbox.until(lambda: inbox.page.evaluate(STATES) == [CLOSED, OPEN])
    inbox.page.evaluate("dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }))")
    inbox.until(lambda: inbox.page.evaluate(STATES) == [CLOSED, CLOSED, OPEN])
    inbox.asked(REFUND)
    expect(inbox.row("refund")).to_be_visible()


def test_who_this_is_is_asked_once(open_inbox: Open) -> None:
    inbox = open_inbox(script=STREAMS)
    asked: list[str] = []
    inbox.page.on("request", lambda request: asked.append(request.url) if request.url.endswith("/me") else None)
    inbox.page.reload()
    inbox.is_live()
    inbox.asked(REFUND)
    expect(inbox.row("refund")).to_be_visible()
    assert len(asked) == 1


def test_a_request_without_a_reply_comes_to_an_end(open_inbox: Open) -> None:
    inbox = open_inbox(
        expected=("ERR_",), script="AbortSignal.timeout = () => window.ends?.signal ?? new AbortController().signal;"
    )
    inbox.asked(REFUND)
    inbox.show("refund")
    inbox.page.evaluate("window.ends = new AbortController()")
    inbox.page.route("**/snooze", lambda _: None)
    with inbox.page.expect_request("**/snooze"):
        inbox.click("Snooze", inbox.answer)
    inbox.page.evaluate("window.ends.abort()")
    expect(inbox.page.locator(".toast.bad")).to_contain_text("The server does not reply")
