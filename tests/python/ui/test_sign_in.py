"""A server with keys: the page asks for one, and lets do what it may."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.python.support.api import Api, Json
from tests.python.support.served import Served
from tests.python.ui.desk import call
from tests.python.ui.inbox import Inbox

REFUND = call("refund", order=7, cents=500, reason="late")
# Chromium writes each refused request on the console.
REFUSED = ("401",)

OpenPage = Callable[..., Page]


@pytest.fixture(scope="module")
def desk() -> Iterator[Served]:
    with Served("tests.python.ui.desk:desk", workers=4, api_key="a key of the operator") as server:
        yield server


@pytest.fixture
def make_key(api: Api) -> Iterator[Callable[..., Json]]:
    """Makes a key; it is revoked after the test."""
    made: list[Json] = []

    def make(name: str, *scopes: str) -> Json:
        reply = api.post("/keys", {"name": name, "scopes": scopes})
        assert reply.status_code == 201, reply.text
        made.append(reply.json())
        return made[-1]

    yield make
    for key in made:
        api.http.delete(f"/keys/{key['key_id']}")


@pytest.fixture
def enter(open_page: OpenPage, desk: Served, api: Api, size: str) -> Callable[[str], Inbox]:
    """Signs in with a key, as a person does."""

    def sign_in(key: str) -> Inbox:
        page = open_page(desk.url, size, REFUSED)
        page.get_by_label("Key", exact=True).fill(key)
        page.get_by_role("button", name="Sign in").click()
        inbox = Inbox(page, api)
        inbox.is_live()
        return inbox

    return sign_in


def test_a_wrong_key_shows_nothing(open_page: OpenPage, desk: Served, size: str) -> None:
    page = open_page(desk.url, size, REFUSED)
    page.get_by_label("Key", exact=True).fill("hitl_wrong")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text("not known here")
    expect(page.locator(".rows")).to_have_count(0)


def test_an_answer_is_by_the_key_that_signed_in(enter: Callable[[str], Inbox], make_key: Callable[..., Json]) -> None:
    inbox = enter(make_key("ada", "read", "answer")["key"])
    expect(inbox.page.locator("header")).to_contain_text("ada")
    session_id, [asked] = inbox.asked(REFUND)
    inbox.show("refund")
    inbox.click("Approve", inbox.answer)
    inbox.send()
    assert inbox.said(session_id) == "refunded 500 cents of order 7: late"
    assert inbox.api.interrupt(asked["interrupt_id"])["resolved_by"] == "ada"


def test_a_key_that_only_reads_is_offered_no_answer(
    enter: Callable[[str], Inbox], make_key: Callable[..., Json]
) -> None:
    inbox = enter(make_key("bob", "read")["key"])
    inbox.asked(REFUND)
    inbox.go("Waiting")
    inbox.show("refund")
    expect(inbox.request).to_contain_text("late")
    expect(inbox.request).to_contain_text("Your key may read, not answer.")
    for button in inbox.request.get_by_role("button", name=re.compile("^(Approve|Edit|Reject)")).all():
        expect(button).to_be_disabled()


def test_a_cookie_outlives_the_page_and_ends_with_sign_out(
    enter: Callable[[str], Inbox], make_key: Callable[..., Json]
) -> None:
    inbox = enter(make_key("ada", "read", "answer")["key"])
    inbox.page.reload()
    inbox.is_live()
    cookie = next(cookie for cookie in inbox.page.context.cookies() if cookie["name"] == "hitl_sign_in")
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
    inbox.click("Sign out")
    expect(inbox.page.get_by_label("Key", exact=True)).to_be_visible()
    inbox.page.reload()
    expect(inbox.page.get_by_label("Key", exact=True)).to_be_visible()


def test_a_revoked_key_is_asked_for_again(
    enter: Callable[[str], Inbox], make_key: Callable[..., Json], api: Api
) -> None:
    key = make_key("ada", "read", "answer")
    inbox = enter(key["key"])
    assert api.http.delete(f"/keys/{key['key_id']}").status_code == 204
    inbox.page.reload()
    expect(inbox.page.get_by_label("Key", exact=True)).to_be_visible()
