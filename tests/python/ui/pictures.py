"""Takes the pictures of the documents: `make pictures`, or `python -m tests.python.ui.pictures`.

A real server, the desk's agent, and chromium; light for the desktop, dark for the phone.
"""

from __future__ import annotations

from itertools import zip_longest
from pathlib import Path

from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.python.support.api import Api
from tests.python.support.served import Served
from tests.python.ui.browser import launch
from tests.python.ui.conftest import PATIENCE
from tests.python.ui.desk import COMPLAINTS

TO = Path(__file__).resolve().parents[3] / "docs/images"
DECISIONS = [
    {"approved": True},
    {"approved": False, "reason": "Ask for a picture first."},
    {"type": "edit", "args": {"order": 1002, "cents": 900, "reason": "Charged twice."}},
]
"""What comes of the first complaints; the others wait."""


def fill(api: Api) -> str:
    """A morning at the desk; the session of the picture of the chat."""
    for complaint, decision in zip_longest(COMPLAINTS, DECISIONS):
        session_id = api.create()
        session = api.settled(session_id, complaint, 1)
        if decision is not None:
            api.resume_to_the_end(session_id, session["interrupts"][0]["interrupt_id"], decision)
    api.settled(api.create(), "Tell the customer that it is on its way.", 1)
    api.settled(api.create(), "I am very angry.", 1)
    api.settled(api.create(), "Please send me a new one instead.", 1)
    talk = api.create()
    api.settled(talk, "Hello, this is Ada.", 0)
    api.settled(talk, "Order 1042 arrived broken, I want my money back.", 1)
    return talk


class Camera:
    """One size and scheme."""

    def __init__(self, browser: Browser, url: str, name: str) -> None:
        phone = name == "phone"
        context = browser.new_context(
            viewport={"width": 390, "height": 780} if phone else {"width": 1180, "height": 720},
            device_scale_factor=1.5,
            color_scheme="dark" if phone else "light",
            is_mobile=phone,
            has_touch=phone,
            reduced_motion="reduce",
        )
        self.name, self.url = name, url
        self.page: Page = context.new_page()

    def open(self, path: str) -> None:
        self.page.goto(f"{self.url}/#/{path}")
        expect(self.page.locator(".connection.live")).to_be_attached()

    def row(self, text: str) -> None:
        self.open("inbox/needs")
        self.page.locator(".row").filter(has_text=text).first.get_by_role("link").click()
        expect(self.page.get_by_role("region", name="Answer")).to_be_visible()

    def take(self, what: str) -> None:
        self.page.screenshot(path=TO / f"inbox-{what}-{self.name}.png")


def shoot(camera: Camera, talk: str) -> None:
    camera.open("inbox/needs")
    expect(camera.page.locator(".row").first).to_be_visible()
    camera.take("list")
    camera.row("order: 1042")
    expect(camera.page.get_by_role("region", name="Earlier decisions").get_by_role("listitem").first).to_be_visible()
    camera.take("approval")
    camera.page.keyboard.press("e")
    camera.page.get_by_label("cents").fill("2500")
    camera.page.get_by_role("button", name="Approve with changes").scroll_into_view_if_needed()
    camera.take("edit")
    camera.page.keyboard.press("Escape")
    camera.row("2 questions")
    camera.page.get_by_role("radio", name="Express").check()
    camera.take("question")
    camera.open(f"sessions/{talk}")
    expect(camera.page.get_by_role("region", name="Request: refund")).to_be_visible()
    camera.take("chat")


def main() -> None:
    TO.mkdir(parents=True, exist_ok=True)
    expect.set_options(timeout=PATIENCE)
    with Served("tests.python.ui.desk:desk") as server, sync_playwright() as playwright:
        talk = fill(server.api)
        browser = launch(playwright)
        shoot(Camera(browser, server.url, "desktop"), talk)
        phone = Camera(browser, server.url, "phone")
        phone.row("order: 1042")
        phone.take("approval")
        browser.close()


if __name__ == "__main__":
    main()
