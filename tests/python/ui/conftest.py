"""A browser, a server of the desk, and the inbox as a person uses it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Dialog, Page, Route, ViewportSize, expect, sync_playwright

from tests.python.support.api import Api, Json
from tests.python.support.served import Served
from tests.python.ui.browser import launch
from tests.python.ui.inbox import Inbox

PATIENCE = 60_000
"""Milliseconds in which the page must show what a test waits for; a busy machine takes its time."""

SIZES: dict[str, ViewportSize] = {"desktop": {"width": 1280, "height": 820}, "phone": {"width": 390, "height": 844}}

Open = Callable[..., Inbox]
OpenPage = Callable[..., Page]
MakeKey = Callable[..., Json]
Enter = Callable[..., Inbox]

PATIENT = "const timer = setTimeout; window.setTimeout = (work, after) => after >= 5000 ? 0 : timer(work, after);"
"""What is held for some seconds so that it can be taken back is held until somebody sends it: on a busy machine axe
alone takes longer than that."""

# Chromium writes each refused request on the console.
REFUSED = ("401",)

WORKING_TREE = os.environ.get("HITL_TEST_UI") == "working-tree"
"""While developing: script and style as `make ui` left them, not as they were when the core was built."""


def from_working_tree(route: Route) -> None:
    file = Path(__file__).resolve().parents[3] / "src/server/assets/ui" / route.request.url.rpartition("/")[2]
    route.fulfill(response=route.fetch(), body=file.read_bytes())


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """For all modules here, of which none has asynchronous tests: Playwright's loop would be in the way of these, so it
    ends before those of another package begin."""
    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        browser = launch(playwright)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def desk() -> Iterator[Served]:
    """A server of the support desk, for the tests of a module."""
    with Served("tests.python.ui.desk:desk", workers=4) as server:
        yield server


@pytest.fixture
def api(desk: Served) -> Iterator[Api]:
    """The desk's requests; what a test leaves open is cancelled, so that the next one begins with an empty inbox."""
    yield desk.api
    for session in desk.api.get("/sessions", limit=1000).json():
        desk.api.delete(session["session_id"])


@pytest.fixture(params=SIZES)
def size(request: pytest.FixtureRequest) -> str:
    """A desktop's window, and a phone's."""
    name: str = request.param
    return name


@pytest.fixture
def open_page(browser: Browser, api: Api) -> Iterator[Callable[..., Page]]:
    """A page of its own; what it says on the console or throws fails the test, refused scripts included.

    It closes before `api` tidies up, so that it does not ask for what is gone.
    """
    with ExitStack() as stack:

        def open_it(
            url: str, size: str = "desktop", expected: tuple[str, ...] = (), script: str = PATIENT, **options: object
        ) -> Page:
            context = browser.new_context(viewport=SIZES[size], has_touch=size == "phone", **options)
            context.set_default_timeout(PATIENCE)
            context.add_init_script(script)
            page = context.new_page()
            trouble: list[str] = []

            def answer_dialog(dialog: Dialog) -> None:
                trouble.append(f"dialog: {dialog.type} {dialog.message}")
                # Who is asked whether to leave stays.
                if dialog.type == "beforeunload":
                    dialog.dismiss()
                else:
                    dialog.accept()

            page.on("pageerror", lambda error: trouble.append(f"thrown: {error}"))
            page.on("console", lambda message: trouble.append(message.text) if message.type == "error" else None)
            page.on("dialog", answer_dialog)

            def leave() -> None:
                # What a test holds or changes on its way may still be under way.
                page.unroute_all(behavior="ignoreErrors")
                context.close()
                # Chromium writes every refusal of a request on the console.
                said = [text for text in trouble if not any(part in text for part in expected)]
                assert said == []

            stack.callback(leave)
            if WORKING_TREE:
                page.route("**/ui/*", from_working_tree)
            page.goto(url)
            return page

        yield open_it


@pytest.fixture
def open_inbox(open_page: Callable[..., Page], desk: Served, api: Api) -> Open:
    """The desk's inbox, once it hears what happens."""

    def open_it(size: str = "desktop", **options: object) -> Inbox:
        inbox = Inbox(open_page(desk.url, size, **options), api)
        inbox.is_live()
        return inbox

    return open_it


@pytest.fixture
def inbox(open_inbox: Open, size: str) -> Inbox:
    """The desk's inbox at both sizes."""
    return open_inbox(size)


@pytest.fixture
def make_key(api: Api) -> Iterator[MakeKey]:
    """Makes a key, on a desk that has them; it is revoked after the test."""
    made: list[Json] = []

    def make(name: str, *scopes: str, groups: tuple[str, ...] = ()) -> Json:
        reply = api.post("/keys", {"name": name, "scopes": scopes, "groups": groups})
        assert reply.status_code == 201, reply.text
        made.append(reply.json())
        return made[-1]

    yield make
    for key in made:
        api.http.delete(f"/keys/{key['key_id']}")


@pytest.fixture
def enter(open_page: OpenPage, desk: Served, api: Api, size: str) -> Enter:
    """Signs in with a key, as a person does."""

    def sign_in(key: str, *expected: str) -> Inbox:
        page = open_page(desk.url, size, (*REFUSED, *expected))
        page.get_by_label("Key", exact=True).fill(key)
        page.get_by_role("button", name="Sign in").click()
        inbox = Inbox(page, api)
        inbox.is_live()
        return inbox

    return sign_in
