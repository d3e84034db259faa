"""Talking to an agent, answering in place, and what a session has been through."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import Route, expect

from tests.python.ui.conftest import PATIENT
from tests.python.ui.desk import SHIPPING, call

if TYPE_CHECKING:
    from pathlib import Path

    from tests.python.support.api import Api
    from tests.python.ui.conftest import Open
    from tests.python.ui.desk import Call
    from tests.python.ui.inbox import Inbox

RETURN = "Order 1042 arrived broken, I want my money back."
MOST_AT_ONCE = """() => {
  const log = document.querySelector("[role=log]");
  const count = () => window.mostAtOnce = Math.max(window.mostAtOnce ?? 0, log.querySelectorAll(".said").length);
  new MutationObserver(count).observe(log, { childList: true, subtree: true });
}"""
"""Counts how many messages the page shows, and keeps the most."""
HEARS_LATE = """
const listen = EventSource.prototype.addEventListener;
EventSource.prototype.addEventListener = function (kind, hear) {
  listen.call(this, kind, (event) => window.late ? window.late.push(() => hear(event)) : hear(event));
};
window.hear = () => { const late = window.late; window.late = null; for (const hear of late) hear(); };"""
"""From `window.late = []` on the page hears nothing of what happens, and all of it with `window.hear()`."""


def log(inbox: Inbox) -> str:
    return inbox.page.get_by_role("log").inner_text()


def test_a_conversation_with_an_approval_in_its_place(inbox: Inbox) -> None:
    inbox.page.get_by_role("link", name="Sessions").click()
    inbox.click("New session")
    message = inbox.page.get_by_role("textbox", name="Message")
    message.fill(RETURN)
    message.press("Enter")
    chat = inbox.page.get_by_role("log")
    expect(chat).to_contain_text(RETURN)
    # Beside what was said: a form in the log would be read out at every key.
    card = inbox.page.get_by_role("region", name="Request: refund")
    expect(card).to_contain_text("4990")
    # The agent waits, and not the person who writes.
    expect(inbox.page.get_by_role("button", name="Send", exact=True)).to_be_disabled()
    expect(message).to_have_attribute("placeholder", "First answer what is asked.")
    inbox.click("Approve", card)
    inbox.send()
    expect(chat).to_contain_text("49.90 EUR go back to the card")
    expect(card).to_have_count(0)
    # The agent may have said all of it and still be at it; then nothing is sent.
    message.fill("thanks")
    expect(inbox.page.get_by_role("button", name="Send", exact=True)).to_be_enabled()
    message.press("Enter")
    expect(chat).to_contain_text("You said: thanks")


@pytest.mark.parametrize(
    ("asks", "request_is"),
    [(call("ask_user_question", questions=[SHIPPING]), SHIPPING["question"]), (call("ask_address"), "Where to?")],
    ids=["about_its_call", "about_anything"],
)
def test_a_tool_that_asks_waits_and_is_not_at_work(open_inbox: Open, asks: Call, request_is: str) -> None:
    inbox = open_inbox()
    session_id = inbox.api.create()
    asking = [call("refund", order=1, cents=1, reason="r")], [asks]
    inbox.api.settled(session_id, json.dumps(asking), 1)
    inbox.page.goto(f"{inbox.page.url.split('#')[0]}#/sessions/{session_id}")
    inbox.click("Approve", inbox.page.get_by_role("region", name="Request: refund"))
    inbox.send()
    # The page hears that the next tool begins, and then that it asks.
    expect(inbox.page.get_by_role("region", name=f"Request: {request_is}")).to_be_visible()
    chat = inbox.page.get_by_role("log")
    expect(chat).to_contain_text("waits for an answer")
    expect(chat).not_to_contain_text("at work")


def test_what_the_agent_says_appears_while_it_says_it(open_inbox: Open, tmp_path: Path) -> None:
    inbox = open_inbox()
    session_id = inbox.api.create()
    inbox.page.goto(f"{inbox.page.url.split('#')[0]}#/sessions/{session_id}")
    expect(inbox.page.get_by_text("Say something to begin.")).to_be_visible()
    gate = tmp_path / "go"
    text = f"pause until {gate}: " + " ".join(f"word{number}" for number in range(20))
    inbox.api.send(session_id, text)
    said = inbox.page.get_by_role("log").locator(".said.assistant")
    expect(said).to_contain_text(f"You said: pause until {gate}: word0")
    expect(said).not_to_contain_text("word19")
    gate.touch()
    # One message, although it was heard and then read.
    expect(said).to_contain_text(f"You said: {text}")


def test_nothing_is_shown_twice_where_a_turn_ends_while_the_page_reads_it(open_inbox: Open, tmp_path: Path) -> None:
    inbox = open_inbox()
    session_id, gate = inbox.api.create(), tmp_path / "go"
    messages: list[Route] = []
    session: list[Route] = []
    holds = True

    def hold(path: str, held: list[Route]) -> None:
        def each(route: Route) -> None:
            if holds and route.request.method == "GET":
                held.append(route)
            else:
                route.continue_()

        inbox.page.route(path, each)

    inbox.page.goto(f"{inbox.page.url.split('#')[0]}#/sessions/{session_id}")
    expect(inbox.page.get_by_text("Say something to begin.")).to_be_visible()
    hold(f"**/sessions/{session_id}/messages", messages)
    inbox.api.send(session_id, f"pause until {gate}: hello")
    # The page knows of an open turn, and has not read what was said before it when it is over.
    inbox.until(lambda: messages)
    hold(f"**/sessions/{session_id}", session)
    gate.touch()
    inbox.api.wait(session_id)
    inbox.page.evaluate(MOST_AT_ONCE)
    with inbox.page.expect_response(f"**/sessions/{session_id}/messages"):
        messages.pop().continue_()
    inbox.until(lambda: session)
    holds = False
    for route in [*messages, *session]:
        route.continue_()
    chat = inbox.page.get_by_role("log")
    expect(chat.locator(".said.assistant")).to_contain_text("hello")
    expect(inbox.page.locator(".session .status")).to_have_text("idle")
    expect(chat.locator(".said")).to_have_count(2)
    assert inbox.page.evaluate("window.mostAtOnce") == 2


def test_what_the_page_has_read_is_not_shown_again_when_it_hears_of_it(open_inbox: Open, tmp_path: Path) -> None:
    inbox = open_inbox(script=PATIENT + HEARS_LATE)
    session_id, gate = inbox.api.create(), tmp_path / "go"
    messages: list[Route] = []
    inbox.page.goto(f"{inbox.page.url.split('#')[0]}#/sessions/{session_id}")
    expect(inbox.page.get_by_text("Say something to begin.")).to_be_visible()
    inbox.page.route(f"**/sessions/{session_id}/messages", lambda route: messages.append(route), times=1)
    inbox.api.send(session_id, f"pause until {gate}: hello")
    # It has asked for what was said, and reads it when the turn is over, which it has not heard yet.
    inbox.until(lambda: messages)
    inbox.page.evaluate("window.late = []")
    gate.touch()
    inbox.api.wait(session_id)
    inbox.page.evaluate(MOST_AT_ONCE)
    messages.pop().continue_()
    said = inbox.page.get_by_role("log").locator(".said")
    expect(said).to_have_count(2)
    inbox.page.evaluate("window.hear()")
    expect(inbox.page.locator(".session .status")).to_have_text("idle")
    expect(said).to_have_count(2)
    assert inbox.page.evaluate("window.mostAtOnce") == 2


def test_what_is_heard_of_a_turn_that_was_over_when_the_page_came_is_not_shown_again(
    open_inbox: Open, tmp_path: Path
) -> None:
    inbox = open_inbox(script=PATIENT + HEARS_LATE)
    session_id = inbox.api.create()
    place = f"{inbox.page.url.split('#')[0]}#/sessions/{session_id}"
    inbox.page.evaluate("window.late = []")
    inbox.api.send(session_id, "hello")
    inbox.api.wait(session_id)
    inbox.page.goto(place)
    said = inbox.page.get_by_role("log").locator(".said")
    expect(said).to_have_count(2)
    inbox.page.evaluate(MOST_AT_ONCE)
    with inbox.page.expect_response(f"**/sessions/{session_id}"):
        inbox.page.evaluate("window.hear()")
    expect(said).to_have_count(2)
    # What it says next is shown while it says it.
    gate = tmp_path / "go"
    inbox.api.send(session_id, f"pause until {gate}: and then")
    expect(said).to_have_count(4)
    gate.touch()
    inbox.api.wait(session_id)
    expect(said.last).to_contain_text("and then")
    expect(inbox.page.locator(".session .status")).to_have_text("idle")
    expect(said).to_have_count(4)
    assert inbox.page.evaluate("window.mostAtOnce") == 4


def test_several_requests_of_one_turn_are_answered_one_by_one(inbox: Inbox) -> None:
    session_id, _ = inbox.asked(*(call("refund", order=order, cents=order, reason="r") for order in (1, 2)))
    inbox.page.goto(f"{inbox.page.url.split('#')[0]}#/sessions/{session_id}")
    cards = inbox.page.get_by_role("region", name="Request: refund")
    expect(cards).to_have_count(2)
    # A key could mean either.
    inbox.page.get_by_role("heading", level=1).click()
    inbox.press("a")
    expect(inbox.undo).to_have_count(0)
    inbox.click("Approve", cards.filter(has_text="order1"))
    inbox.send()
    expect(cards).to_have_count(1)
    inbox.click("Approve", cards)
    inbox.send()
    expect(inbox.page.get_by_role("log")).to_contain_text("refunded 2 cents")


def test_the_newest_session_is_there_before_the_others_are_loaded(inbox: Inbox) -> None:
    made = [inbox.api.create() for _ in range(5)]
    later: list[Route] = []
    inbox.page.route("**/sessions?*cursor=*", lambda route: later.append(route))
    inbox.page.route("**/sessions?*limit=200", lambda route: route.continue_(url=route.request.url.replace("200", "2")))
    inbox.page.get_by_role("link", name="Sessions").click()
    links = inbox.rows.get_by_role("link")
    newest_first = [re.compile(f"#/sessions/{session_id}$") for session_id in reversed(made)]
    expect(links).to_have_count(2)
    for place in range(2):
        expect(links.nth(place)).to_have_attribute("href", newest_first[place])
    # And then the rest below, page by page.
    for shown in (4, 5):
        inbox.until(lambda: later)
        later.pop().continue_()
        expect(links).to_have_count(shown)
    for place in range(5):
        expect(links.nth(place)).to_have_attribute("href", newest_first[place])


def test_the_requests_of_one_session_are_a_filter_of_the_inbox(inbox: Inbox) -> None:
    session_id, _ = inbox.asked(call("refund", order=1, cents=1, reason="r"))
    chip = inbox.page.get_by_role("button", name=f"Session …{session_id[-8:]}")
    inbox.asked(call("refund", order=2, cents=2, reason="r"))
    expect(inbox.rows).to_have_count(2)
    inbox.page.goto(f"{inbox.page.url.split('#')[0]}#/sessions/{session_id}")
    inbox.page.get_by_role("link", name="Requests of this session").click()
    # Until then the rows are those of sessions.
    expect(chip).to_be_visible()
    expect(inbox.rows).to_have_count(1)
    expect(inbox.rows).to_contain_text("order: 1")
    # What others ask does not come in by an event either.
    inbox.asked(call("refund", order=3, cents=3, reason="r"))
    expect(inbox.page.locator("[aria-live=polite]")).to_have_text("New request: refund")
    expect(inbox.rows).to_have_count(1)
    chip.click()
    expect(inbox.rows).to_have_count(3)


def test_a_turn_can_be_stopped_and_its_error_is_shown(inbox: Inbox) -> None:
    session_id, _ = inbox.asked(call("refund", order=1, cents=1, reason="r"))
    inbox.page.goto(f"{inbox.page.url.split('#')[0]}#/sessions/{session_id}")
    inbox.click("Stop the turn")
    expect(inbox.page.get_by_role("alert")).to_have_text("Turn cancelled")


# --- titles ---


def test_a_session_is_called_by_its_first_message_and_its_agent_by_its_name(inbox: Inbox) -> None:
    inbox.page.get_by_role("link", name="Sessions").click()
    inbox.click("New session")
    expect(inbox.page.get_by_role("heading", level=1)).to_have_text(re.compile("^Session …[0-9a-f]{8}$"))
    message = inbox.page.get_by_role("textbox", name="Message")
    message.fill("Where is\nmy **parcel**?")
    inbox.click("Send")
    # Here and in the list, by itself.
    expect(inbox.page.get_by_role("heading", level=1)).to_have_text("Where is my parcel?")
    expect(inbox.page.locator(".session .facts")).to_contain_text("support_desk")
    expect(inbox.page.locator(".session .facts")).not_to_contain_text("tests.python")
    inbox.page.goto(f"{inbox.page.url.split('#')[0]}#/sessions")
    expect(inbox.row("Where is my parcel?")).to_contain_text("support_desk")
    expect(inbox.rows).not_to_contain_text("tests.python")


def test_sessions_are_searched_on_the_server_by_title_and_by_id(open_inbox: Open, api: Api, size: str) -> None:
    made = {text: api.create() for text in ("Where is my parcel?", "Where is order 12?", "Hello")}
    for text, session_id in made.items():
        api.settled(session_id, text, 0)
    # What a page hears of it looks for and lists, and this one comes when all is over.
    inbox = open_inbox(size)
    # As if there were more than fit a page: what is looked for is not loaded.
    inbox.page.route("**/sessions?order*limit=200", lambda route: route.fulfill(json=[]))
    inbox.page.get_by_role("link", name="Sessions").click()
    expect(inbox.page.get_by_text("No session yet.")).to_be_visible()
    search = inbox.page.get_by_role("searchbox", name="Search sessions")
    inbox.press("/")
    expect(search).to_be_focused()
    search.fill("WHERE is")
    expect(inbox.rows).to_have_count(2)
    expect(inbox.page.get_by_role("heading", name="2 matches")).to_be_visible()
    search.fill(made["Hello"])
    expect(inbox.rows).to_have_count(1)
    expect(inbox.rows).to_contain_text("Hello")
    search.fill(made["Where is order 12?"][-8:])
    expect(inbox.rows).to_contain_text(["order 12"])
    # What is begun meanwhile is none of what was looked for.
    inbox.api.settled(inbox.api.create(), "Another one", 0)
    search.fill("nobody said this")
    expect(inbox.page.get_by_text("No session is called that.")).to_be_visible()
    expect(inbox.rows).to_have_count(0)


def test_a_search_goes_on_where_a_page_found_nothing_and_asks_after_many(open_inbox: Open) -> None:
    inbox = open_inbox()
    inbox.api.settled(inbox.api.create(), "Where is my parcel?", 0)
    asked: list[str] = []

    def page_of_a_large_store(route: Route) -> None:
        asked.append(route.request.url)
        if len(asked) < 22:
            link = f'</sessions?q=parcel&order=newest&limit=200&cursor=n{10**9 - len(asked)}>; rel="next"'
            route.fulfill(json=[], headers={"link": link})
        else:
            route.continue_()

    # A page that hears of a session looks for it by its id.
    inbox.page.route("**/sessions?q=parcel&*", page_of_a_large_store)
    inbox.page.get_by_role("link", name="Sessions").click()
    inbox.page.get_by_role("searchbox", name="Search sessions").fill("parcel")
    expect(inbox.page.get_by_text("Looked through the newest 100,000 sessions.")).to_be_visible()
    assert len(asked) == 20
    inbox.click("Look further")
    expect(inbox.row("Where is my parcel?")).to_be_visible()
    assert len(asked) == 22


# --- what became of calls ---


def test_what_a_call_became_stands_beside_it_while_the_turn_is_open_and_after(inbox: Inbox) -> None:
    session_id = inbox.api.create()
    [asked] = inbox.api.settled(session_id, RETURN, 1)["interrupts"]
    # Of an open turn only the journal knows it.
    inbox.page.goto(f"{inbox.page.url.split('#')[0]}#/sessions/{session_id}")
    calls = inbox.page.get_by_role("log").locator(".call")
    expect(calls).to_have_count(2)
    expect(calls.nth(0)).to_contain_text("find_order")
    expect(calls.nth(0)).to_contain_text("Ada Lovelace")
    expect(calls.nth(1)).to_contain_text("waits for an answer")
    changed = {"order": 1042, "cents": 2500, "reason": "half"}
    inbox.api.resume(session_id, asked["interrupt_id"], {"approved": True, "args": changed})
    expect(calls.nth(1)).to_contain_text("approved with changes")
    expect(calls.nth(1)).to_contain_text("refunded 2500 cents")
    # A result once, and not as a message of its own besides.
    expect(inbox.page.get_by_role("log").locator(".said.tool")).to_have_count(0)
    expect(inbox.page.get_by_role("log").locator(".said.user")).to_have_count(1)
    inbox.page.reload()
    expect(calls.nth(1)).to_contain_text("refunded 2500 cents")
    expect(calls.nth(1)).to_contain_text("approved with changes")


def test_an_open_turn_is_shown_before_the_page_knows_what_the_server_can_do(open_inbox: Open) -> None:
    inbox = open_inbox()
    session_id = inbox.api.create()
    inbox.api.settled(session_id, RETURN, 1)
    held: list[Route] = []
    inbox.page.route("**/openapi.json", lambda route: held.append(route))
    inbox.page.goto("about:blank")
    inbox.page.goto(f"{inbox.api.http.base_url}/#/sessions/{session_id}")
    expect(inbox.page.get_by_role("log").locator(".call")).to_have_count(2)
    for route in held:
        route.continue_()


def test_a_decided_request_shows_what_came_of_it(inbox: Inbox) -> None:
    _, [asked] = inbox.asked(call("refund", order=7, cents=500, reason="late"))
    inbox.show("order: 7")
    # By its title, which is here the plan that the model was told.
    expect(inbox.request.locator(".to-session")).to_contain_text('"refund"')
    conversation = inbox.request.get_by_role("region", name="Conversation")
    expect(conversation.locator(".call")).to_contain_text("waits for an answer")
    came = inbox.request.get_by_role("region", name="What came of it")
    expect(came).to_have_count(0)
    inbox.api.resume(asked["session_id"], asked["interrupt_id"], {"approved": True})
    expect(came).to_contain_text("refunded 500 cents of order 7: late")
    _, [refused] = inbox.asked(call("refund", order=8, cents=500, reason="late"))
    inbox.api.resume(refused["session_id"], refused["interrupt_id"], {"approved": False})
    inbox.said(refused["session_id"])
    inbox.page.goto(f"{inbox.page.url.split('#')[0]}#/inbox/done/{refused['interrupt_id']}")
    expect(conversation.locator(".call")).to_contain_text("rejected")
    expect(came).to_have_count(0)


def test_what_was_said_to_a_turn_that_failed_is_still_there(open_inbox: Open) -> None:
    inbox = open_inbox()
    session_id = inbox.api.create()
    inbox.api.settled(session_id, "Hello", 0)
    inbox.api.send(session_id, "fail: no such order")
    inbox.api.wait(session_id)
    inbox.page.goto(f"{inbox.page.url.split('#')[0]}#/sessions/{session_id}")
    expect(inbox.page.get_by_role("log")).to_contain_text("fail: no such order")
    expect(inbox.page.get_by_role("alert")).to_contain_text("RuntimeError: no such order")


WORDS_BROKEN = """element => {
  const texts = document.createTreeWalker(element, NodeFilter.SHOW_TEXT), broken = [];
  for (let node; (node = texts.nextNode()); ) {
    const range = document.createRange();
    range.selectNodeContents(node);
    if (new Set([...range.getClientRects()].map((box) => box.top)).size > 1) broken.push(node.data);
  }
  return broken;
}"""
"""The texts in an element that stand on more than one line."""


def test_the_name_of_a_tool_is_broken_between_its_words(open_inbox: Open) -> None:
    inbox = open_inbox()
    result = {"role": "tool", "name": "list_open_invoices", "tool_call_id": "c", "content": "none"}
    session_id = inbox.api.create(state=[result])
    inbox.page.goto(f"{inbox.page.url.split('#')[0]}#/sessions/{session_id}")
    speaker = inbox.page.get_by_role("log").get_by_text("list_open_invoices")
    expect(speaker).to_be_visible()
    assert speaker.evaluate(WORDS_BROKEN) == []


def test_of_a_long_conversation_the_end_is_shown_and_the_rest_when_asked_for(open_inbox: Open) -> None:
    inbox = open_inbox()
    said = [{"role": "user" if number % 2 else "assistant", "content": f"word {number}."} for number in range(450)]
    session_id = inbox.api.create(said)
    inbox.page.goto(f"{inbox.page.url.split('#')[0]}#/sessions/{session_id}")
    chat = inbox.page.get_by_role("log")
    expect(chat).to_contain_text("word 449.")
    for shown, earlier in ((200, 200), (400, 50)):
        expect(chat.locator(".said")).to_have_count(shown)
        expect(chat.locator(".said").first).to_contain_text(f"word {450 - shown}.")
        inbox.click(f"Show {earlier} earlier messages", chat)
    expect(chat.locator(".said").first).to_contain_text("word 0.")
    expect(chat.get_by_role("button", name="earlier messages")).to_have_count(0)


def test_of_a_request_that_is_higher_than_the_page_the_beginning_is_shown(inbox: Inbox) -> None:
    """Nobody decides by its buttons before its arguments were in sight."""
    session_id, _ = inbox.asked(call("send_mail", to="ada@example.org", subject="Long", body="A line.\n" * 80))
    inbox.page.goto(inbox.page.url.partition("#")[0] + f"#/sessions/{session_id}")
    card = inbox.page.get_by_role("region", name="Request: send_mail")
    expect(card.get_by_text("ada@example.org")).to_be_in_viewport()
    expect(card.get_by_role("button", name="Approve")).not_to_be_in_viewport()


def test_a_list_does_not_say_how_many_messages_a_session_had(inbox: Inbox) -> None:
    inbox.page.get_by_role("link", name="Sessions").click()
    inbox.click("New session")
    message = inbox.page.get_by_role("textbox", name="Message")
    for said in ("one", "two"):
        message.fill(said)
        # The agent may have said all of it and still be at it; then nothing is sent.
        expect(inbox.page.get_by_role("button", name="Send", exact=True)).to_be_enabled()
        message.press("Enter")
        expect(inbox.page.get_by_role("log")).to_contain_text(f"You said: {said}")
    expect(inbox.page.locator(".session .status")).to_have_text("idle")
    if (back := inbox.page.get_by_role("link", name="Back")).is_visible():
        back.click()
    expect(inbox.rows.filter(has_text="one").first).to_contain_text("4 messages")


def test_the_keys_of_a_request_are_not_shown_while_a_message_is_written(open_inbox: Open) -> None:
    inbox = open_inbox()
    session_id, [asked] = inbox.asked(call("refund", order=1, cents=5, reason="cracked"))
    inbox.page.goto(inbox.page.url.partition("#")[0] + f"#/sessions/{session_id}")
    key = inbox.page.get_by_role("region", name="Request: refund").get_by_role("button", name="Approve").locator("kbd")
    message = inbox.page.get_by_role("textbox", name="Message")
    message.focus()
    inbox.press("a")
    expect(message).to_have_value("a")
    expect(key).to_be_hidden()
    inbox.press("Escape")
    expect(key).to_be_visible()
    inbox.press("a")
    inbox.send()
    assert inbox.resolved(asked["interrupt_id"]) == {"approved": True}


def test_of_a_long_conversation_what_is_new_is_read_after_a_turn_and_all_of_one_that_was_changed(
    open_inbox: Open,
) -> None:
    inbox = open_inbox()
    said = [{"role": "user" if number % 2 else "assistant", "content": f"word {number}."} for number in range(150)]
    session_id = inbox.api.create(said)
    chat = inbox.page.get_by_role("log")
    read: list[str] = []
    inbox.page.on("request", lambda request: "/messages" in request.url and read.append(request.url))
    inbox.page.goto(f"{inbox.page.url.split('#')[0]}#/sessions/{session_id}")
    expect(chat).to_contain_text("word 149.")
    inbox.api.send(session_id, "one more")
    expect(chat.locator(".said.assistant").last).to_contain_text("one more")
    expect(chat.locator(".said")).to_have_count(152)
    asked_for = [url.rpartition("/")[2] for url in read]
    # It may look once more, and then leaves out what it has by then.
    assert "messages" not in asked_for[asked_for.index("messages?after=149") :]
    # Where the last message that it has is another one by now, what comes before it may be another too.
    other = [{"role": "assistant", "content": "Another."}]
    inbox.page.route("**/messages?after=*", lambda route: route.fulfill(json=other))
    inbox.api.wait(session_id)
    read.clear()
    assert inbox.api.send(session_id, "and the last").status_code == 202
    expect(chat.locator(".said.assistant").last).to_contain_text("and the last")
    expect(chat.locator(".said")).to_have_count(154)
    # It may have heard all of it before it reads.
    inbox.until(lambda: "messages" in {url.rpartition("/")[2] for url in read})
