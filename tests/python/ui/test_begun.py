"""What somebody has begun is not lost, and what they go on typing decides nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from tests.python.ui.desk import call
from tests.python.ui.inbox import pending

if TYPE_CHECKING:
    from tests.python.ui.conftest import Open
    from tests.python.ui.inbox import Inbox

NO = {"approved": False, "reason": "twice"}


def refund(order: int) -> dict[str, Any]:
    return call("refund", order=order, cents=order, reason="r")


def test_who_types_when_somebody_else_is_first_keeps_what_they_wrote(inbox: Inbox) -> None:
    others = [inbox.asked(refund(order))[1][0] for order in (1, 2)]
    session_id, [asked] = inbox.asked(refund(3))
    inbox.show("order: 3")
    inbox.click("Reject", inbox.answer)
    reason = inbox.page.get_by_label("Why not?")
    inbox.page.keyboard.type("no, ")
    inbox.api.resume(session_id, asked["interrupt_id"], NO)
    expect(inbox.answer).to_contain_text("What you had begun was not sent: it was rejected before.")
    # Each of these letters is a key of the page.
    inbox.page.keyboard.type("just ask him\n")
    expect(reason).to_be_focused()
    expect(reason).to_have_value("no, ")
    expect(inbox.undo).to_have_count(0)
    inbox.press("Escape")
    expect(reason).to_have_count(0)
    expect(inbox.answer).to_contain_text("twice")
    assert all(pending(inbox.api, one["interrupt_id"]) for one in others)


def test_a_field_that_nobody_has_written_in_yet_is_kept_as_well(inbox: Inbox) -> None:
    inbox.asked(refund(1))
    session_id, [asked] = inbox.asked(call("ask_anything", payload={"type": "color"}, message="Which?"))
    inbox.show("Which?")
    answer = inbox.page.get_by_role("textbox", name="Answer", exact=True)
    answer.focus()
    inbox.api.resume(session_id, asked["interrupt_id"], "blue")
    expect(answer).not_to_be_editable()
    inbox.page.keyboard.type("jar")
    expect(answer).to_be_focused()
    inbox.click("Leave it")
    expect(answer).to_have_count(0)


def test_what_was_begun_can_be_read_after_a_look_at_something_else(inbox: Inbox) -> None:
    session_id, [asked] = inbox.asked(call("ask_anything", payload={"type": "color"}, message="Which?"))
    inbox.show("Which?")
    answer = inbox.page.get_by_role("textbox", name="Answer", exact=True)
    answer.fill("a long answer")
    inbox.page.get_by_role("link", name="Sessions", exact=True).click()
    inbox.api.resume(session_id, asked["interrupt_id"], "blue")
    inbox.page.get_by_role("link", name="Inbox", exact=True).click()
    inbox.go("Done")
    inbox.show("Which?")
    expect(answer).to_have_value("a long answer")


def test_in_a_session_letters_are_no_keys_of_the_request_that_is_left(inbox: Inbox) -> None:
    session_id, asked = inbox.asked(refund(1), refund(2))
    inbox.page.goto(f"{inbox.page.url.split('#')[0]}#/sessions/{session_id}")
    cards = inbox.page.get_by_role("region", name="Request: refund")
    inbox.click("Reject", cards.filter(has_text="order1"))
    reason = inbox.page.get_by_label("Why not?")
    inbox.page.keyboard.type("sold ")
    inbox.api.resume(session_id, asked[0]["interrupt_id"], NO)
    expect(cards.filter(has_text="order1")).to_contain_text("What you had begun was not sent")
    inbox.page.keyboard.type("as ")
    expect(reason).to_have_value("sold ")
    inbox.press("Escape")
    expect(cards).to_have_count(1)
    # It has gained the keys, which nobody has noticed.
    inbox.press("a")
    expect(inbox.undo).to_have_count(0)
    cards.get_by_role("heading").click()
    inbox.press("a")
    expect(inbox.undo).to_contain_text("Approved refund")


def test_keys_go_nowhere_that_were_meant_for_a_field_that_is_gone(open_inbox: Open) -> None:
    """As tasks of the page, one right after the other."""
    inbox = open_inbox()
    inbox.asked(refund(1))
    expect(inbox.rows).to_have_count(1)
    inbox.press("j")
    expect(inbox.request).to_contain_text("order1")
    opened = inbox.page.evaluate(
        """async () => {
            const field = document.body.appendChild(document.createElement("input"));
            field.focus();
            field.remove();
            for (const key of ["a", "e", "j"]) {
                document.body.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
                await new Promise((resolve) => setTimeout(resolve));
            }
            return document.querySelectorAll(".toast.undo, .editing").length;
        }"""
    )
    assert opened == 0
    inbox.page.get_by_role("heading", level=1).click()
    inbox.press("a")
    expect(inbox.undo).to_contain_text("Approved refund")


SCHEMA = {"type": "object", "properties": {"any": {}}, "required": ["any"]}


@pytest.mark.parametrize("schema", [SCHEMA, None], ids=["in a field", "alone"])
def test_what_is_no_json_yet_is_there_again(open_inbox: Open, schema: Any) -> None:
    inbox = open_inbox()
    inbox.asked(refund(1))
    inbox.asked(call("ask_anything", payload={"type": "color"}, message="Which?", schema=schema))
    inbox.show("Which?")
    if schema is None:
        inbox.click("JSON", inbox.answer)
    field = inbox.answer.get_by_role("textbox")
    field.fill('{"half": ')
    inbox.show("order: 1")
    inbox.show("Which?")
    expect(field).to_have_value('{"half": ')
    expect(inbox.answer.get_by_role("button", name="Answer", exact=True)).to_be_disabled()
    field.fill('{"half": 1}')
    expect(inbox.answer).not_to_contain_text("This is no JSON yet")


def test_a_text_goes_along_to_json_and_back(open_inbox: Open) -> None:
    inbox = open_inbox()
    inbox.asked(call("ask_anything", payload={"type": "color"}, message="Which?"))
    inbox.show("Which?")
    text = inbox.page.get_by_role("textbox", name="Answer", exact=True)
    as_json = inbox.page.get_by_label("Answer (JSON)")
    for written, same in (("blue", '"blue"'), ("[1.50]", "[\n  1.50\n]")):
        text.fill(written)
        # The way it is shown already.
        inbox.click("Text", inbox.answer)
        expect(text).to_have_value(written)
        inbox.click("JSON", inbox.answer)
        expect(as_json).to_have_value(same)
        inbox.click("Text", inbox.answer)
    expect(text).to_have_value("[\n  1.50\n]")


def test_names_that_stand_twice_are_there_again(open_inbox: Open) -> None:
    inbox = open_inbox()
    inbox.asked(refund(1))
    inbox.asked(call("set_shipping", address={"city": "Bonn", "street": "Main 1"}, parcels=[1]))
    inbox.show("set_shipping")
    inbox.press("e")
    inbox.page.get_by_label("Name 2").fill("city")
    expect(inbox.answer).to_contain_text("The same name stands twice.")
    inbox.show("order: 1")
    inbox.show("set_shipping")
    expect(inbox.page.get_by_label("Name 2")).to_have_value("city")
    expect(inbox.page.get_by_label("Value 2")).to_have_value("Main 1")


def test_the_reason_why_many_are_rejected_is_kept_until_it_was_sent(open_inbox: Open) -> None:
    inbox = open_inbox()
    for order in (1, 2):
        inbox.asked(refund(order))
    expect(inbox.rows).to_have_count(2)
    inbox.row("order: 1").get_by_role("checkbox").check()
    bar = inbox.page.get_by_role("region", name="Selected requests")
    reason = inbox.page.get_by_label("Why not?")
    inbox.click("All like this", bar)
    inbox.click("Reject", bar)
    reason.fill("sale is over")
    inbox.click("Cancel")
    inbox.click("Reject", bar)
    inbox.click("Reject 2")
    inbox.click("Undo", inbox.undo)
    inbox.row("order: 1").get_by_role("checkbox").check()
    inbox.click("Reject", bar)
    expect(reason).to_have_value("sale is over")
    inbox.click("Reject 1")
    inbox.send()
    inbox.row("order: 2").get_by_role("checkbox").check()
    inbox.click("Reject", bar)
    expect(reason).to_have_value("")
