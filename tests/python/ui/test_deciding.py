"""Approvals: every decision, exactly as it was made, and none that was taken back."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import Route, expect

from tests.python.ui.conftest import PATIENT
from tests.python.ui.desk import call
from tests.python.ui.inbox import pending

if TYPE_CHECKING:
    from tests.python.ui.conftest import Open
    from tests.python.ui.inbox import Inbox

REFUND = call("refund", order=7, cents=500, reason="late")
MAIL = call("send_mail", to="ada@example.org", subject="Sorry", body="Dear Ada,\nwe are sorry.\nThe desk")


def test_approving_runs_the_tool_with_what_was_shown(inbox: Inbox) -> None:
    session_id, [asked] = inbox.asked(REFUND)
    inbox.show("refund")
    for text in ("order", "7", "cents", "500", "reason", "late", asked["args_digest"]):
        expect(inbox.request).to_contain_text(text)
    inbox.click("Approve", inbox.answer)
    assert inbox.settled(session_id) == "refunded 500 cents of order 7: late"
    assert inbox.resolved(asked["interrupt_id"]) == {"approved": True}


def test_an_answer_can_be_taken_back_before_it_is_sent(inbox: Inbox) -> None:
    _, [asked] = inbox.asked(REFUND)
    inbox.show("refund")
    inbox.click("Approve", inbox.answer)
    expect(inbox.undo).to_contain_text("Approved refund")
    inbox.click("Undo", inbox.undo)
    expect(inbox.undo).to_have_count(0)
    # It is there again, to be answered otherwise.
    expect(inbox.answer.get_by_role("button", name=re.compile("^Approve"))).to_be_visible()
    assert pending(inbox.api, asked["interrupt_id"])


def test_an_answer_is_sent_by_itself_after_a_few_seconds(open_inbox: Open) -> None:
    inbox = open_inbox(script="")
    _, [asked] = inbox.asked(REFUND)
    inbox.show("refund")
    inbox.click("Approve", inbox.answer)
    expect(inbox.page.locator("[aria-live=polite]")).to_contain_text("Approved refund: sent.")
    inbox.resolved(asked["interrupt_id"])


def test_a_rejection_tells_the_agent_why(inbox: Inbox) -> None:
    session_id, [asked] = inbox.asked(REFUND)
    inbox.show("refund")
    inbox.click("Reject", inbox.answer)
    inbox.page.get_by_label("Why not?").fill("Ask for a picture first")
    inbox.click("Reject", inbox.answer)
    assert inbox.settled(session_id) == '{"error": "User rejected refund: Ask for a picture first"}'
    assert inbox.resolved(asked["interrupt_id"]) == {"approved": False, "reason": "Ask for a picture first"}


def test_an_edit_is_checked_while_it_is_typed_and_shown_as_a_difference(inbox: Inbox) -> None:
    session_id, [asked] = inbox.asked(REFUND)
    inbox.show("refund")
    inbox.click("Edit", inbox.answer)
    approve = inbox.answer.get_by_role("button", name="Approve with changes")
    expect(approve).to_be_disabled()
    cents = inbox.page.get_by_label("cents")
    for wrong in ("lots", "2.5", ""):
        cents.fill(wrong)
        expect(cents).to_have_attribute("aria-invalid", "true")
        expect(approve).to_be_disabled()
    cents.fill("250")
    expect(inbox.answer.locator(".changes del")).to_have_text("500")
    expect(inbox.answer.locator(".changes ins")).to_have_text("250")
    approve.click()
    assert inbox.settled(session_id).startswith("refunded 250 cents of order 7: late")
    assert inbox.resolved(asked["interrupt_id"])["args"] == {"order": 7, "cents": 250, "reason": "late"}
    inbox.go("Done")
    inbox.show("refund")
    expect(inbox.answer).to_contain_text("Approved with changes")
    expect(inbox.answer.locator(".changes ins")).to_have_text("250")


def test_long_texts_differ_line_by_line(open_inbox: Open) -> None:
    inbox = open_inbox()
    inbox.asked(MAIL)
    inbox.show("send_mail")
    inbox.press("e")
    inbox.page.get_by_label("body").fill("Dear Ada,\nwe are very sorry.\nThe desk")
    lines = inbox.answer.locator(".lines")
    expect(lines.locator(".gone")).to_contain_text("we are sorry.")
    expect(lines.locator(".new")).to_contain_text("we are very sorry.")
    expect(lines.locator(".same")).to_have_count(2)


def test_nested_arguments_are_fields_too(open_inbox: Open) -> None:
    inbox = open_inbox()
    session_id, [asked] = inbox.asked(
        call("set_shipping", address={"street": "Main 1", "city": "Bonn"}, parcels=[1, 2])
    )
    inbox.show("set_shipping")
    inbox.press("e")
    inbox.page.get_by_label("Value 2").fill("Berlin")
    inbox.page.get_by_label("parcels 2", exact=True).fill("3")
    inbox.click("+ Add to parcels")
    expect(inbox.answer.get_by_role("button", name="Approve with changes")).to_be_disabled()
    inbox.page.get_by_label("parcels 3", exact=True).fill("5")
    inbox.page.get_by_role("radio", name="Yes").check()
    inbox.page.get_by_label("note").fill("Ring twice")
    inbox.click("Approve with changes")
    inbox.send()
    inbox.said(session_id)
    assert inbox.resolved(asked["interrupt_id"])["args"] == {
        "address": {"street": "Main 1", "city": "Berlin"},
        "parcels": [1, 3, 5],
        "gift": True,
        "note": "Ring twice",
    }


def test_a_double_click_approves_one_request(open_inbox: Open) -> None:
    inbox = open_inbox()
    for order in (1, 2):
        inbox.asked(call("refund", order=order, cents=order, reason="r"))
    inbox.show("order: 2")
    inbox.answer.get_by_role("button", name=re.compile("^Approve")).dblclick()
    expect(inbox.request).to_contain_text("order1")
    expect(inbox.undo).to_have_count(1)
    expect(inbox.rows).to_have_count(1)


def test_nor_do_two_clicks_that_come_faster_than_anybody_reads(open_inbox: Open) -> None:
    """As tasks of the page one after the other, at one time of its clock, which no hand and no driver of a browser does
    for sure."""
    inbox = open_inbox()
    for order in (1, 2):
        inbox.asked(call("refund", order=order, cents=order, reason="r"))
    inbox.show("order: 2")
    expect(inbox.answer.get_by_role("button", name=re.compile("^Approve"))).to_be_visible()
    inbox.page.evaluate(
        """async () => {
            const now = performance.now();
            performance.now = () => now;
            for (let clicks = 0; clicks < 2; clicks++) {
                document.querySelector(".answer button.primary").dispatchEvent(
                    new MouseEvent("click", { bubbles: true, cancelable: true, detail: 1 }));
                await new Promise((resolve) => setTimeout(resolve));
            }
            delete performance.now;
        }"""
    )
    expect(inbox.request).to_contain_text("order1")
    expect(inbox.undo).to_have_count(1)
    # Whoever has seen it can answer it.
    inbox.until(lambda: approved_another(inbox))


def approved_another(inbox: Inbox) -> bool:
    if inbox.undo.count() < 2:
        inbox.click("Approve", inbox.answer)
    return inbox.undo.count() == 2


def test_a_person_may_answer_in_the_place_of_a_tool_that_allows_it(inbox: Inbox) -> None:
    session_id, _ = inbox.asked(MAIL)
    inbox.show("send_mail")
    inbox.click("Answer in its place", inbox.answer)
    inbox.page.get_by_label("What the agent gets").fill("I called her instead.")
    inbox.click("Answer in its place", inbox.answer)
    assert inbox.settled(session_id) == "I called her instead."


def test_approving_for_the_session_says_what_it_covers_and_can_be_revoked(inbox: Inbox) -> None:
    session_id, asked = inbox.asked(REFUND, call("refund", order=8, cents=1, reason="too"))
    inbox.show("order: 7")
    always = inbox.answer.get_by_label("For the rest of this session")
    always.check()
    for text in ("Every later call of refund", "by support_desk", "the other one that waits there now"):
        expect(inbox.answer).to_contain_text(text)
    inbox.click("Approve for this session", inbox.answer)
    inbox.settled(session_id)
    assert {inbox.api.interrupt(one["interrupt_id"])["status"] for one in asked} == {"resolved"}
    inbox.page.goto(f"{inbox.page.url.split('#')[0]}#/sessions/{session_id}/grants")
    expect(inbox.page.get_by_text("Calls of refund by support_desk are approved without asking.")).to_be_visible()
    inbox.click("Revoke")
    expect(inbox.page.get_by_text("Nothing is decided for the rest of this session.")).to_be_visible()
    assert inbox.api.get(f"/sessions/{session_id}/grants").json() == []


def test_if_somebody_else_is_first_the_page_says_so(open_inbox: Open) -> None:
    inbox = open_inbox(expected=("409",))
    session_id, [asked] = inbox.asked(REFUND)
    inbox.show("refund")
    inbox.click("Approve", inbox.answer)
    inbox.api.resume(session_id, asked["interrupt_id"], {"approved": False, "reason": "no"})
    inbox.click("Send now", inbox.undo)
    notice = inbox.page.locator(".toast.bad")
    expect(notice).to_contain_text("rejected before your answer came")
    notice.get_by_role("link", name="Show").click()
    expect(inbox.answer).to_contain_text("Rejected")
    expect(inbox.answer).to_contain_text("no")


def test_a_request_that_is_answered_elsewhere_while_it_is_open_shows_the_answer(inbox: Inbox) -> None:
    session_id, [asked] = inbox.asked(REFUND)
    inbox.show("refund")
    inbox.api.resume(session_id, asked["interrupt_id"], {"approved": True})
    expect(inbox.answer).to_contain_text("Approved")
    expect(inbox.answer.get_by_role("button", name=re.compile("^Approve"))).to_have_count(0)


def test_earlier_decisions_and_the_conversation_are_beside_it(inbox: Inbox) -> None:
    first, [asked] = inbox.asked(REFUND)
    inbox.api.resume(first, asked["interrupt_id"], {"approved": False, "reason": "no"})
    inbox.said(first)
    inbox.api.settled(first, '[[{"name": "refund", "args": {"order": 7, "cents": 1, "reason": "please"}}]]', 1)
    inbox.show("please")
    earlier = inbox.request.get_by_role("region", name="Earlier decisions")
    expect(earlier).to_contain_text("rejected")
    expect(earlier).to_contain_text("order: 7")
    expect(inbox.request.get_by_role("region", name="Conversation")).to_contain_text("User rejected refund: no")


def test_earlier_decisions_are_of_the_same_agent_about_the_tool_from_the_same_server(open_inbox: Open) -> None:
    inbox = open_inbox()
    for cents in (1, 2):
        session_id, [asked] = inbox.asked(call("refund", order=7, cents=cents, reason="r"))
        inbox.api.resume(session_id, asked["interrupt_id"], {"approved": True})
        inbox.said(session_id)

    def elsewhere(route: Route) -> None:
        """The newest is of a server's tool of that name."""
        response = route.fetch()
        found = response.json()
        found[0]["tool_source"] = "mcp:bank"
        route.fulfill(response=response, json=found)

    inbox.asked(REFUND)
    inbox.page.route(re.compile(r"/interrupts\?type=tool_approval&tool=refund&agent=support_desk&"), elsewhere)
    inbox.show("refund")
    earlier = inbox.request.get_by_role("region", name="Earlier decisions")
    expect(earlier).to_contain_text("Earlier decisions about refund by support_desk")
    expect(earlier).to_contain_text("cents: 1")
    expect(earlier.get_by_role("listitem")).to_have_count(1)


def test_of_a_call_that_was_approved_with_changes_what_ran_is_shown(inbox: Inbox) -> None:
    first, [asked] = inbox.asked(call("refund", order=7, cents=4200, reason="late"))
    inbox.api.resume(
        first, asked["interrupt_id"], {"type": "edit", "args": {"order": 7, "cents": 100, "reason": "late"}}
    )
    inbox.said(first)
    inbox.api.settled(first, '[[{"name": "refund", "args": {"order": 7, "cents": 1, "reason": "please"}}]]', 1)
    inbox.show("please")
    earlier = inbox.request.get_by_role("region", name="Earlier decisions")
    expect(earlier).to_contain_text("approved with changes")
    expect(earlier).to_contain_text("cents: 100")
    expect(earlier).not_to_contain_text("4200")


def test_many_like_calls_are_decided_together_and_unlike_ones_are_not(inbox: Inbox) -> None:
    sessions = [inbox.asked(call("refund", order=order, cents=order, reason="r")) for order in range(3)]
    inbox.asked(MAIL)
    expect(inbox.rows).to_have_count(4)
    inbox.row("order: 1").get_by_role("checkbox").check()
    inbox.row("Sorry").get_by_role("checkbox").check()
    bar = inbox.page.get_by_role("region", name="Selected requests")
    expect(bar.get_by_role("button", name="Approve")).to_be_disabled()
    inbox.row("Sorry").get_by_role("checkbox").uncheck()
    inbox.click("All like this", bar)
    expect(bar).to_contain_text("3 selected")
    inbox.click("Approve", bar)
    dialog = inbox.page.get_by_role("dialog")
    # Everything that will run is in sight.
    expect(dialog.get_by_role("row")).to_have_count(4)
    inbox.click("Approve 3", dialog)
    expect(inbox.undo).to_contain_text("Approved 3 calls of refund")
    inbox.send()
    for session_id, _ in sessions:
        assert inbox.said(session_id).startswith("refunded")
    expect(inbox.rows).to_have_count(1)


def test_many_are_rejected_with_one_reason(open_inbox: Open) -> None:
    inbox = open_inbox()
    asked = [inbox.asked(call("refund", order=order, cents=order, reason="r"))[1][0] for order in range(2)]
    for order in range(2):
        inbox.row(f"order: {order}").get_by_role("checkbox").check()
    inbox.click("Reject", inbox.page.get_by_role("region", name="Selected requests"))
    inbox.page.get_by_label("Why not?").fill("sale is over")
    inbox.click("Reject 2")
    inbox.send()
    for one in asked:
        assert inbox.resolved(one["interrupt_id"]) == {"approved": False, "reason": "sale is over"}


OLDER_BROWSER = """
    delete JSON.rawJSON;
    const parse = JSON.parse;
    JSON.parse = (text, reviver) =>
      parse(text, reviver && function (key, value) { return reviver.call(this, key, value) });
"""
"""As it was before a reader of JSON could be told of the text it read."""


@pytest.mark.parametrize("script", [PATIENT, PATIENT + OLDER_BROWSER], ids=["newer browser", "older browser"])
@pytest.mark.parametrize("digits", ["12345678901234567890", "0.1234567890123456789"])
def test_numbers_keep_their_digits(open_inbox: Open, digits: str, script: str) -> None:
    """A double would show, and then approve, another number."""
    inbox = open_inbox(script=script)
    payload = f'{{"type": "account", "number": {digits}}}'
    plan = f'[[{{"name": "ask_anything", "args": {{"payload": {payload}}}}}]]'
    inbox.api.settled(inbox.api.create(), plan, 1)
    inbox.show("account")
    shown = inbox.what_is_asked.locator(".literal").inner_text()
    stored = inbox.api.get("/interrupts", status="pending").text
    assert f'"number":{shown}' in stored


@pytest.mark.parametrize("script", [PATIENT, PATIENT + OLDER_BROWSER], ids=["newer browser", "older browser"])
def test_numbers_of_an_answer_keep_theirs(open_inbox: Open, script: str) -> None:
    inbox = open_inbox(script=script)
    _, [asked] = inbox.asked(call("ask_anything", payload={"type": "account"}, message="Which?"))
    inbox.show("Which?")
    inbox.click("JSON", inbox.answer)
    answer = '{"whole":12345678901234567890,"exact":0.1234567890123456,"text":"1.0 \\"2.0\\"","list":[1.0,-0,[],{}]}'
    inbox.page.get_by_label("Answer (JSON)").fill(answer)
    inbox.click("Answer", inbox.answer)
    with inbox.page.expect_request("**/resume") as sent:
        inbox.send()
    assert sent.value.post_data == f'{{"value":{answer}}}'
    inbox.resolved(asked["interrupt_id"])


LINES = """element => {
  const texts = document.createTreeWalker(element, NodeFilter.SHOW_TEXT), tops = new Set();
  for (let node; (node = texts.nextNode()); ) {
    const range = document.createRange();
    range.selectNodeContents(node);
    for (const box of range.getClientRects()) tops.add(box.top);
  }
  return tops.size;
}"""
"""On how many lines the texts in an element stand."""


def test_the_key_of_a_value_stands_on_one_line_where_there_is_room(inbox: Inbox) -> None:
    inbox.asked(call("set_shipping", address={"notes.todo.txt": "lists"}, parcels=[1]))
    inbox.show("set_shipping")
    key = inbox.request.get_by_role("rowheader", name="notes.todo.txt")
    expect(key).to_be_visible()
    assert key.evaluate(LINES) == 1
