"""The page in the words of who uses it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from playwright.sync_api import Locator, Page, expect

from tests.python.support.api import Api, Json
from tests.python.ui.desk import Call


class Inbox:
    """An open inbox, and the requests of its server."""

    def __init__(self, page: Page, api: Api) -> None:
        self.page = page
        self.api = api

    # --- what agents do ---------------------------------------------------------------------------------------------

    def asked(self, *calls: Call) -> tuple[str, list[Json]]:
        """A new session whose agent makes these calls, each of which asks; and what it asks."""
        return self.asked_by(self.api, *calls)

    @staticmethod
    def asked_by(api: Api, *calls: Call) -> tuple[str, list[Json]]:
        """The same with a message of somebody else."""
        session_id = api.create()
        session = api.settled(session_id, json.dumps([calls]), len(calls))
        assert session["status"] == "interrupted", session
        return session_id, session["interrupts"]

    def said(self, session_id: str) -> str:
        """What the agent says once its turn is over."""
        session = self.api.wait(session_id)
        assert session["status"] == "idle", session
        content: str = session["response"]["content"]
        return content

    def settled(self, session_id: str) -> str:
        """The same for a turn whose answer the page holds."""
        self.send()
        return self.said(session_id)

    # --- what a person sees -----------------------------------------------------------------------------------------

    def is_live(self) -> None:
        expect(self.page.locator(".connection.live")).to_be_attached()

    @property
    def rows(self) -> Locator:
        return self.page.locator(".rows .row")

    @property
    def request(self) -> Locator:
        """The request that is open."""
        return self.page.get_by_role("region", name="Request", exact=True)

    @property
    def what_is_asked(self) -> Locator:
        """Its payload, or the arguments of its call; the conversation beside it may show the same."""
        return self.request.locator("section.asked")

    @property
    def answer(self) -> Locator:
        """The way to answer it."""
        return self.request.get_by_role("region", name="Answer")

    @property
    def undo(self) -> Locator:
        return self.page.locator(".toast.undo")

    def row(self, text: str) -> Locator:
        return self.rows.filter(has_text=text)

    def until(self, condition: Callable[[], object]) -> None:
        """Wait for what is no element of the page, while the page goes on."""
        while not condition():
            self.page.wait_for_timeout(10)

    # --- what a person does -----------------------------------------------------------------------------------------

    def show(self, text: str) -> None:
        """Open the request in the list."""
        self.row(text).first.get_by_role("link").click()
        expect(self.request.get_by_role("heading", level=1)).to_be_visible()

    def go(self, box: str) -> None:
        """One of the boxes; from a request on a phone, by way of the list."""
        if (back := self.request.get_by_role("link", name="Back")).is_visible():
            back.click()
        self.page.get_by_role("navigation", name="Boxes").get_by_role("link", name=re.compile(f"^{box}")).click()

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def click(self, name: str, within: Locator | None = None) -> None:
        """A button by the words it begins with."""
        place = self.page if within is None else within
        place.get_by_role("button", name=re.compile(f"^{re.escape(name)}")).click()

    def send(self) -> None:
        """Do not wait until an answer is sent by itself."""
        self.undo.get_by_role("button", name="Send now").click()
        expect(self.undo).to_have_count(0)

    def resolved(self, interrupt_id: str) -> Any:
        """The stored answer."""
        record = self.api.interrupt(interrupt_id)
        assert record["status"] == "resolved", record
        return record["value"]


def pending(api: Api, interrupt_id: str) -> bool:
    return bool(api.interrupt(interrupt_id)["status"] == "pending")
