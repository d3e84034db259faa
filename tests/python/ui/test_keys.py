"""Everything works from the keyboard."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.python.ui.desk import call
from tests.python.ui.inbox import Inbox, pending

if TYPE_CHECKING:
    from tests.python.ui.conftest import Open


@pytest.fixture
def inbox(open_inbox: Open) -> Inbox:
    """Three requests, the newest first."""
    inbox = open_inbox()
    for order in (1, 2, 3):
        inbox.asked(call("refund", order=order, cents=order, reason=f"reason {order}"))
    expect(inbox.rows).to_have_count(3)
    return inbox


def test_j_and_k_move_and_escape_leaves(inbox: Inbox) -> None:
    for key, reason in [("j", "reason 3"), ("j", "reason 2"), ("j", "reason 1"), ("j", "reason 1"), ("k", "reason 2")]:
        inbox.press(key)
        expect(inbox.request).to_contain_text(reason)
    inbox.press("Escape")
    expect(inbox.request).to_contain_text("3 requests need you.")


def test_a_approves_and_goes_on_to_the_next_and_u_takes_it_back(inbox: Inbox) -> None:
    third = inbox.api.get("/interrupts", status="pending").json()[0]
    inbox.press("j")
    expect(inbox.request).to_contain_text("reason 3")
    inbox.press("a")
    expect(inbox.undo).to_contain_text("Approved refund")
    expect(inbox.request).to_contain_text("reason 2")
    inbox.press("u")
    expect(inbox.undo).to_have_count(0)
    expect(inbox.request).to_contain_text("reason 3")
    assert pending(inbox.api, third["interrupt_id"])


def test_a_key_that_is_held_down_approves_once(inbox: Inbox) -> None:
    inbox.press("j")
    expect(inbox.request).to_contain_text("reason 3")
    # Playwright repeats a key that is pressed again before it is let go.
    for _ in range(3):
        inbox.page.keyboard.down("a")
    inbox.page.keyboard.up("a")
    expect(inbox.request).to_contain_text("reason 2")
    expect(inbox.undo).to_have_count(1)
    expect(inbox.rows).to_have_count(2)


def test_r_rejects_with_a_reason_and_e_edits(inbox: Inbox) -> None:
    newest, second, _ = inbox.api.get("/interrupts", status="pending").json()
    inbox.press("j")
    expect(inbox.request).to_contain_text("reason 3")
    inbox.press("r")
    expect(inbox.page.get_by_label("Why not?")).to_be_focused()
    inbox.page.keyboard.type("a and e are letters here")
    inbox.press("Enter")
    inbox.send()
    assert inbox.resolved(newest["interrupt_id"])["reason"] == "a and e are letters here"
    expect(inbox.request).to_contain_text("reason 2")
    # Whoever answers right after that has not read it.
    inbox.page.evaluate("now => void (performance.now = () => now + 1000)", inbox.page.evaluate("performance.now()"))
    inbox.press("e")
    expect(inbox.page.get_by_label("order")).to_be_focused()
    inbox.press("Tab")
    # What was there is selected, so that typing replaces it.
    inbox.page.keyboard.type("20")
    inbox.press("Tab", "Tab", "Enter")
    inbox.send()
    assert inbox.resolved(second["interrupt_id"])["args"]["cents"] == 20


def test_keys_that_come_faster_than_the_page_is_painted_mean_what_is_shown_then(inbox: Inbox) -> None:
    """As tasks of the page one after the other, which no hand and no driver of a browser does for sure."""
    focused = inbox.page.evaluate(
        """async (keys) => {
            for (const key of keys) {
                const press = new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true });
                document.activeElement.dispatchEvent(press);
                await new Promise((resolve) => {
                    const { port1, port2 } = new MessageChannel();
                    port1.onmessage = resolve;
                    port2.postMessage(null);
                });
            }
            return document.activeElement.labels?.[0]?.textContent ?? document.activeElement.tagName;
        }""",
        ["j", "j", "r"],
    )
    assert focused.startswith("Why not?")
    expect(inbox.request).to_contain_text("reason 2")


def test_x_selects_and_the_question_mark_lists_the_keys(inbox: Inbox) -> None:
    inbox.press("j", "x", "j", "x")
    expect(inbox.page.get_by_role("region", name="Selected requests")).to_contain_text("2 selected")
    inbox.press("?")
    expect(inbox.page.get_by_role("dialog", name="Keys")).to_be_visible()
    # A dialog keeps the keys to itself.
    inbox.press("a")
    expect(inbox.undo).to_have_count(0)
    inbox.press("Escape")
    expect(inbox.page.get_by_role("dialog")).to_have_count(0)


def test_s_decides_for_the_session_and_c_claims_and_releases(inbox: Inbox) -> None:
    newest = inbox.api.get("/interrupts", status="pending").json()[0]
    inbox.press("j")
    expect(inbox.request).to_contain_text("reason 3")
    inbox.press("c")
    inbox.page.get_by_label("Your name").fill("Ada")
    inbox.press("Enter")
    expect(inbox.answer).to_contain_text("You work on this until")
    # The name is asked for once.
    for shown in (False, True, False):
        inbox.press("c")
        expect(inbox.answer.get_by_text("You work on this until")).to_be_visible(visible=shown)
    assert "claimed_by" not in inbox.api.interrupt(newest["interrupt_id"])
    inbox.press("s")
    expect(inbox.answer.get_by_label("For the rest of this session")).to_be_checked()
    inbox.press("a")
    inbox.send()
    assert inbox.resolved(newest["interrupt_id"]) == {"approved": True, "always": True}


def test_digits_go_to_the_boxes_g_to_the_sessions_and_n_begins_one(inbox: Inbox) -> None:
    boxes = inbox.page.get_by_role("navigation", name="Boxes")
    for key, box in (("2", "Waiting"), ("3", "Done"), ("1", "Needs you")):
        inbox.press(key)
        expect(boxes.locator("[aria-current=page]")).to_contain_text(box)
    inbox.press("g")
    expect(inbox.rows).to_have_count(3)
    inbox.press("n")
    expect(inbox.page.get_by_text("Say something to begin.")).to_be_visible()
    expect(inbox.rows).to_have_count(4)
    # The message has the focus, and letters are letters there.
    expect(inbox.page.get_by_role("textbox", name="Message")).to_be_focused()
    inbox.press("Escape", "g")
    expect(boxes).to_be_visible()


def test_slash_searches_and_keys_are_letters_there(inbox: Inbox) -> None:
    inbox.press("j", "/")
    expect(inbox.page.get_by_label("Search requests")).to_be_focused()
    inbox.page.keyboard.type("reason 2")
    expect(inbox.rows).to_have_count(1)
    expect(inbox.undo).to_have_count(0)


def test_the_focus_can_be_seen_and_reaches_an_answer_without_a_mouse(inbox: Inbox) -> None:
    inbox.press("j")
    expect(inbox.request).to_contain_text("reason 3")
    for _ in range(40):
        inbox.press("Tab")
        focused = inbox.page.evaluate(
            "() => { const it = document.activeElement; const style = getComputedStyle(it);"
            " return [it.textContent, style.outlineStyle] }"
        )
        assert focused[1] != "none", focused
        if focused[0].startswith("Approve"):
            break
    else:
        raise AssertionError("Tab never reached the button")
    inbox.press("Enter")
    expect(inbox.undo).to_contain_text("Approved refund")


def test_letters_can_be_turned_off(inbox: Inbox) -> None:
    inbox.press("j")
    expect(inbox.request).to_contain_text("reason 3")
    inbox.press("?")
    dialog = inbox.page.get_by_role("dialog", name="Keys")
    dialog.get_by_label("Single letters are keys of this page").uncheck()
    inbox.click("Close", dialog)
    for _ in range(2):
        expect(inbox.answer.get_by_role("button", name="Approve", exact=True)).to_be_visible()
        inbox.press("a", "r", "j")
        expect(inbox.request).to_contain_text("reason 3")
        expect(inbox.undo).to_have_count(0)
        inbox.page.reload()
    inbox.press("Escape")
    expect(inbox.request).to_contain_text("3 requests need you.")
    inbox.click("Keys")
    dialog.get_by_label("Single letters are keys of this page").check()
    inbox.click("Close", dialog)
    inbox.press("j")
    expect(inbox.request).to_contain_text("reason 3")
