"""Questions: several on a page, one or many labels, words of one's own, previews."""

from __future__ import annotations

from typing import TYPE_CHECKING

from playwright.sync_api import expect

from tests.python.ui.desk import EXTRAS, SHIPPING, call

if TYPE_CHECKING:
    from tests.python.ui.inbox import Inbox

BOTH = call("ask_user_question", questions=[SHIPPING, EXTRAS])


def test_all_questions_of_a_request_are_answered_on_one_page(inbox: Inbox) -> None:
    session_id, [asked] = inbox.asked(BOTH)
    inbox.show("2 questions")
    inbox.page.get_by_role("radio", name="Express").check()
    inbox.page.get_by_role("checkbox", name="Return label").check()
    inbox.page.get_by_role("checkbox", name="Letter").check()
    inbox.click("Answer", inbox.answer)
    inbox.settled(session_id)
    assert inbox.resolved(asked["interrupt_id"]) == {
        "answers": {SHIPPING["question"]: "Express", EXTRAS["question"]: ["Return label", "Letter"]}
    }


def test_an_answer_in_own_words_is_always_possible(inbox: Inbox) -> None:
    session_id, [asked] = inbox.asked(BOTH)
    inbox.show("2 questions")
    inbox.page.get_by_label(f"Another answer to: {SHIPPING['question']}").fill("By bicycle")
    inbox.page.get_by_role("checkbox", name="Voucher").check()
    inbox.page.get_by_label(f"Another answer to: {EXTRAS['question']}").fill("Chocolate")
    inbox.click("Answer", inbox.answer)
    inbox.settled(session_id)
    assert inbox.resolved(asked["interrupt_id"]) == {
        "answers": {SHIPPING["question"]: "By bicycle", EXTRAS["question"]: ["Voucher", "Chocolate"]}
    }


def test_a_question_without_an_answer_is_pointed_out(inbox: Inbox) -> None:
    inbox.asked(BOTH)
    inbox.show("2 questions")
    inbox.page.get_by_role("radio", name="Standard").check()
    inbox.click("Answer", inbox.answer)
    expect(inbox.answer).to_contain_text("One question has no answer yet.")
    expect(inbox.answer.get_by_role("group", name=EXTRAS["question"])).to_contain_text(
        "Choose an answer, or write one."
    )
    expect(inbox.undo).to_have_count(0)
    # It may be out of sight, and is where the next key goes.
    expect(inbox.answer.get_by_role("checkbox", name="Return label")).to_be_focused()


def test_the_preview_is_that_of_the_option_one_looks_at(inbox: Inbox) -> None:
    inbox.asked(BOTH)
    inbox.show("2 questions")
    preview = inbox.answer.locator(".preview")
    expect(preview).to_contain_text("Standard")
    expect(preview).to_contain_text("cost      0.00 EUR")
    inbox.page.get_by_role("radio", name="Express").check()
    expect(preview).to_contain_text("Express")
    expect(preview).to_contain_text("cost      14.90 EUR")
    assert "mono" in preview.evaluate("element => getComputedStyle(element).fontFamily").lower()
