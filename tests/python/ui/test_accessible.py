"""axe finds no serious problem, in any view, at any size, in light and in dark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.python.ui.desk import EXTRAS, SHIPPING, call

if TYPE_CHECKING:
    from tests.python.ui.conftest import Open
    from tests.python.ui.inbox import Inbox

MESSAGE = "# Why\n\nThe *customer* is `angry`, see [the order](https://example.org/1042).\n\n- one\n- two"


def check(inbox: Inbox) -> None:
    # What fades in has no contrast yet.
    inbox.page.evaluate("Promise.all(document.getAnimations().map((animation) => animation.finished))")
    found = Axe().run(inbox.page).response["violations"]
    problems = [
        (one["id"], [node["html"] for node in one["nodes"]])
        for one in found
        if one["impact"] in ("serious", "critical")
    ]
    assert problems == []


@pytest.mark.timeout(900)  # a browser looks at each of twenty pages as a whole
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_view(open_inbox: Open, size: str, scheme: str) -> None:
    inbox = open_inbox(size, color_scheme=scheme)
    check(inbox)  # nothing waits
    done, [asked] = inbox.asked(call("refund", order=1, cents=1, reason="r"))
    inbox.api.resume(done, asked["interrupt_id"], {"approved": True, "args": {"order": 1, "cents": 2, "reason": "s"}})
    inbox.said(done)
    session_id, _ = inbox.asked(
        call("refund", order=1, cents=1, reason="r"),
        call("ask_user_question", questions=[SHIPPING, EXTRAS]),
        call("escalate", summary="angry"),
        call("ask_anything", payload={"type": "look", "list": [1, {"a": "b"}]}, message=MESSAGE),
    )
    base = inbox.page.url.split("#")[0]
    needs = f"{base}#/inbox/needs"
    for shown in ("refund", "2 questions", "Who takes over?", "Why"):
        inbox.page.goto(needs)
        inbox.show(shown)
        expect(inbox.answer).to_be_visible()
        check(inbox)
    # On a server without keys nobody can tell who an approver is.
    inbox.asked(call("pay_invoice", number=12))
    inbox.go("Waiting")
    inbox.show("pay_invoice")
    expect(inbox.answer).to_contain_text("Only somebody in finance or carol can answer this")
    check(inbox)
    inbox.page.goto(needs)
    inbox.show("refund")
    inbox.press("e")
    inbox.page.get_by_label("cents").fill("x")
    check(inbox)
    inbox.press("Escape", "r")
    check(inbox)
    inbox.press("Escape", "a")
    expect(inbox.undo).to_be_visible()
    check(inbox)
    inbox.press("u")
    inbox.page.goto(needs)
    inbox.row("refund").get_by_role("checkbox").check()
    check(inbox)
    inbox.click("Approve", inbox.page.get_by_role("region", name="Selected requests"))
    check(inbox)
    inbox.click("Cancel")
    inbox.press("?")
    check(inbox)
    inbox.press("Escape")
    inbox.page.goto(f"{base}#/inbox/done/{asked['interrupt_id']}")
    expect(inbox.answer).to_contain_text("Approved with changes")
    check(inbox)
    for path in ("sessions", f"sessions/{session_id}", f"sessions/{session_id}/grants", f"sessions/{done}"):
        inbox.page.goto(f"{base}#/{path}")
        expect(inbox.page.locator("#app > main")).to_be_visible()
        check(inbox)


def test_nothing_is_wider_than_a_phone(open_inbox: Open) -> None:
    inbox = open_inbox("phone")
    _, [asked] = inbox.asked(call("refund", order=1, cents=1, reason="x" * 300))
    for path in ("inbox/needs", f"inbox/needs/{asked['interrupt_id']}", "sessions", f"sessions/{asked['session_id']}"):
        inbox.page.goto(f"{inbox.page.url.split('#')[0]}#/{path}")
        expect(inbox.page.locator("#app > main")).to_be_visible()
        assert inbox.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
    # Nor is a long line of a call wider than its conversation.
    expect(inbox.page.get_by_role("log").locator(".call")).to_be_visible()
    assert inbox.page.locator(".conversation").evaluate("(it) => it.scrollWidth <= it.clientWidth")
