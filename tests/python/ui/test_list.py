"""The list: what waits, as it comes, found again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from playwright.sync_api import APIResponse, Route, expect

from tests.python.ui.conftest import PATIENT
from tests.python.ui.desk import call

if TYPE_CHECKING:
    from tests.python.ui.conftest import Open
    from tests.python.ui.inbox import Inbox

REFUND = call("refund", order=7, cents=500, reason="late")


def test_a_request_appears_by_itself_and_leaves_when_it_is_settled_elsewhere(inbox: Inbox) -> None:
    expect(inbox.page.get_by_text("Nothing needs you.")).to_be_visible()
    session_id, [asked] = inbox.asked(REFUND)
    row = inbox.row("refund")
    expect(row).to_contain_text("order: 7")
    expect(row).to_contain_text("Approval")
    expect(row).to_contain_text("support_desk")
    # Somebody who does not see it hears it.
    expect(inbox.page.locator("[aria-live=polite]")).to_have_text("New request: refund")
    inbox.api.resume(session_id, asked["interrupt_id"], {"approved": True})
    expect(inbox.rows).to_have_count(0)
    inbox.go("Done")
    expect(inbox.row("refund")).to_contain_text("approved")


def test_what_is_asked_while_the_list_is_on_its_way_stays(open_inbox: Open) -> None:
    inbox = open_inbox()
    held: list[tuple[Route, APIResponse]] = []
    inbox.page.route("**/interrupts?*status=pending*", lambda route: held.append((route, route.fetch())))
    inbox.page.get_by_label("Search requests").fill("late")
    inbox.until(lambda: held)
    inbox.asked(REFUND)
    expect(inbox.page.locator("[aria-live=polite]")).to_have_text("New request: refund")
    for route, response in held:
        assert response.json() == []
        route.fulfill(response=response)
    inbox.page.unroute_all()
    expect(inbox.row("refund")).to_be_visible()
    expect(inbox.page.get_by_text("Loading")).to_have_count(0)
    expect(inbox.row("refund")).to_be_visible()


def test_the_number_of_requests_is_in_the_title(inbox: Inbox) -> None:
    inbox.asked(REFUND)
    expect(inbox.page).to_have_title("(1) hitl inbox")


def test_filters_and_search_narrow_the_list(inbox: Inbox) -> None:
    inbox.asked(REFUND)
    inbox.asked(call("refund", order=8, cents=900, reason="wrong colour"))
    inbox.asked(call("send_mail", to="ada@example.org", subject="Sorry", body="We are."))
    expect(inbox.rows).to_have_count(3)
    inbox.page.get_by_label("Search requests").fill("colour")
    expect(inbox.rows).to_have_count(1)
    expect(inbox.rows).to_contain_text("order: 8")
    inbox.page.get_by_label("Search requests").fill("")
    expect(inbox.rows).to_have_count(3)
    inbox.click("Filter")
    inbox.page.get_by_label("Tool").select_option("send_mail")
    expect(inbox.rows).to_have_count(1)
    expect(inbox.rows).to_contain_text("Sorry")
    # What does not fit the filter does not come in by an event either.
    inbox.asked(call("refund", order=9, cents=1, reason="again"))
    expect(inbox.page.locator("[aria-live=polite]")).to_have_text("New request: refund")
    expect(inbox.rows).to_have_count(1)
    inbox.click("Clear")
    expect(inbox.rows).to_have_count(4)


def test_the_space_before_a_pause_is_no_part_of_a_search_and_stays(open_inbox: Open) -> None:
    inbox = open_inbox()
    inbox.asked(REFUND)
    search = inbox.page.get_by_label("Search requests")
    search.focus()
    with inbox.page.expect_response("**/interrupts?q=late&*"):
        inbox.page.keyboard.type("late ")
    expect(inbox.rows).to_have_count(1)
    inbox.page.keyboard.type("x")
    expect(inbox.rows).to_have_count(0)
    expect(search).to_have_value("late x")


GOES_ON = """() => {
  const field = document.getElementById("search"), ask = fetch;
  window.fetch = (...args) => {
    if (!String(args[0]).includes("?q=late&")) return ask(...args);
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = ({ data: letter }) => {
      field.value += letter;
      field.dispatchEvent(new InputEvent("input", { bubbles: true }));
    };
    for (const letter of "st") port2.postMessage(letter);
    return ask(...args);
  };
}"""
"""Two letters come with the search for `late`, before the page is painted: as tasks, which no hand does for sure."""


def test_letters_that_come_while_a_search_begins_stay(open_inbox: Open) -> None:
    inbox = open_inbox()
    inbox.asked(REFUND)
    expect(inbox.rows).to_have_count(1)
    inbox.page.evaluate(GOES_ON)
    search = inbox.page.get_by_label("Search requests")
    search.fill("late")
    expect(inbox.rows).to_have_count(0)
    expect(search).to_have_value("latest")


CLEARED = """async () => {
  const field = document.getElementById("search");
  field.value += "r";
  field.dispatchEvent(new InputEvent("input", { bubbles: true }));
  [...document.querySelectorAll(".filters button")].find((button) => button.textContent === "Clear").click();
  await new Promise((resolve) => setTimeout(resolve, 250));
}"""
"""A letter, and "Clear" right after it, until the letter would have been searched for: timers end in their order."""


def test_what_is_cleared_is_not_searched_for(open_inbox: Open) -> None:
    inbox = open_inbox()
    inbox.asked(REFUND)
    inbox.click("Filter")
    search = inbox.page.get_by_label("Search requests")
    search.fill("lat")
    expect(inbox.page.get_by_role("button", name="Clear")).to_be_visible()
    inbox.page.evaluate(CLEARED)
    expect(search).to_have_value("")
    expect(inbox.page.get_by_role("button", name="Clear")).to_have_count(0)


def test_what_comes_above_moves_no_row_that_is_in_sight(open_inbox: Open) -> None:
    inbox = open_inbox()
    inbox.asked(*(call("refund", order=order, cents=order, reason="one of many") for order in range(40)))
    inbox.page.reload()
    # The stream may be open before the list is there, and an empty one has nowhere to scroll to.
    expect(inbox.page.get_by_role("link", name="Needs you 40", exact=True)).to_be_visible()
    rows = inbox.page.locator(".rows")
    rows.evaluate("list => { list.scrollTop = 1000 }")
    row = inbox.row("order: 20")
    before = row.bounding_box()
    inbox.asked(call("refund", order=99, cents=1, reason="new"))
    expect(inbox.page.get_by_role("link", name="Needs you 41", exact=True)).to_be_visible()
    assert row.bounding_box() == before
    assert rows.evaluate("list => list.scrollTop") == 1072


def test_a_long_list_is_loaded_while_one_scrolls_and_never_drawn_in_full(open_inbox: Open) -> None:
    inbox = open_inbox()
    session_id = inbox.api.create()
    calls = [call("refund", order=order, cents=order, reason="one of many") for order in range(260)]
    inbox.api.settled(session_id, json.dumps([calls]), len(calls))
    inbox.page.reload()
    inbox.is_live()
    expect(inbox.page.get_by_role("link", name="Needs you 200+")).to_be_visible()
    assert inbox.rows.count() < 60
    inbox.page.locator(".rows").evaluate("list => { list.scrollTop = list.scrollHeight }")
    expect(inbox.page.get_by_role("link", name="Needs you 260", exact=True)).to_be_visible()
    assert inbox.rows.count() < 60
    # The oldest is at the end, and k wraps to it from nowhere.
    inbox.press("k")
    expect(inbox.request).to_contain_text("one of many")
    expect(inbox.rows.locator("[aria-current=true]")).to_be_visible()


def test_what_is_expired_or_cancelled_is_told_apart(inbox: Inbox) -> None:
    session_id, _ = inbox.asked(REFUND)
    inbox.api.post(f"/sessions/{session_id}/cancel")
    inbox.go("Done")
    inbox.page.get_by_label("Outcome").select_option("Cancelled")
    expect(inbox.row("refund")).to_contain_text("cancelled")
    inbox.show("refund")
    expect(inbox.answer).to_contain_text("Cancelled")


def test_requests_that_came_while_the_connection_was_broken_are_not_missed(open_inbox: Open) -> None:
    inbox = open_inbox(expected=("ERR_INTERNET_DISCONNECTED", "Failed to load"))
    inbox.page.context.set_offline(True)
    inbox.page.evaluate("dispatchEvent(new Event('offline'))")
    inbox.asked(REFUND)
    inbox.page.context.set_offline(False)
    expect(inbox.row("refund")).to_be_visible()


STREAM = """
const Source = EventSource;
window.EventSource = class extends Source { constructor(url) { super(url); window.stream = this; } };"""
"""Makes the page's stream reachable, so that a test can tell on it what did not happen."""
MANY_SETTLED = """([record, from, count]) => {
  const tell = (word, change, number) => window.stream.dispatchEvent(new MessageEvent(`interrupt.${word}`, {
    data: JSON.stringify({ ...record, ...change, interrupt_id: `settled-${number}` }) }));
  for (let number = from; number < from + count; number++) {
    tell("created", {}, number);
    tell("resolved", { status: "resolved", value: { approved: true } }, number);
  }
}"""


def most_kept(inbox: Inbox) -> int:
    """How many of the ids of `MANY_SETTLED` one map, set or list of the page holds at most."""
    session = inbox.page.context.new_cdp_session(inbox.page)
    most = 0
    for kind, ids in (("Map", "[...one.keys()]"), ("Set", "[...one]"), ("Array", "one")):
        prototype = session.send("Runtime.evaluate", {"expression": f"{kind}.prototype"})["result"]["objectId"]
        found = session.send("Runtime.queryObjects", {"prototypeObjectId": prototype})["objects"]["objectId"]
        is_ours = "(id) => typeof id === 'string' && id.startsWith('settled-')"
        counted = session.send(
            "Runtime.callFunctionOn",
            {
                "objectId": found,
                "returnByValue": True,
                "functionDeclaration": "function () { let most = 0; for (const one of this) "
                f"most = Math.max(most, {ids}.filter({is_ours}).length); return most; }}",
            },
        )
        most = max(most, counted["result"]["value"])
    session.detach()
    return most


def test_a_page_that_stays_open_keeps_few_of_those_that_are_settled_and_all_that_it_shows(open_inbox: Open) -> None:
    inbox = open_inbox(script=PATIENT + STREAM)
    session_id, [asked] = inbox.asked(REFUND)
    inbox.asked(call("refund", order=8, cents=1, reason="waits"))
    # Who has been there does not hear of what is done for ever.
    inbox.go("Done")
    expect(inbox.page.get_by_text("Nothing yet.")).to_be_visible()
    inbox.go("Needs you")
    inbox.show("order: 7")
    inbox.api.resume(session_id, asked["interrupt_id"], {"approved": True})
    expect(inbox.answer).to_contain_text("Approved")
    inbox.page.evaluate(MANY_SETTLED, [asked, 0, 1_500])
    expect(inbox.rows).to_have_count(1)
    assert 0 < most_kept(inbox) <= 500
    # What is open stays what it was.
    expect(inbox.answer).to_contain_text("Approved")
    inbox.go("Done")
    expect(inbox.rows).to_have_count(1)
    expect(inbox.row("order: 7")).to_contain_text("approved")
