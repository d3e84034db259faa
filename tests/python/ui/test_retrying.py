"""A suspended turn is taken up again by a press of a button, whatever suspended it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.python.support.served import Served

if TYPE_CHECKING:
    from tests.python.ui.inbox import Inbox


@pytest.fixture(scope="module")
def desk() -> Iterator[Served]:
    with Served("tests.python.ui.desk:desk", workers=2, max_recoveries=0) as server:
        yield server


def test_what_went_wrong_is_said_and_retry_goes_on(inbox: Inbox, tmp_path: Path) -> None:
    session_id = inbox.api.create()
    gate = tmp_path / "go"
    inbox.api.send(session_id, f"crash until {gate}: hello")
    assert inbox.api.wait(session_id)["error_code"] == "worker_exited"
    inbox.page.goto(f"{inbox.page.url.split('#')[0]}#/sessions/{session_id}")
    expect(inbox.page.get_by_role("alert")).to_have_text("Worker process exited unexpectedly")
    gate.touch()
    inbox.click("Retry")
    expect(inbox.page.get_by_role("log")).to_contain_text("You said: crash until")
    expect(inbox.page.get_by_role("alert")).to_have_count(0)


@pytest.mark.parametrize(
    ("says", "code", "reason", "last"),
    [
        ("away", "model_unavailable", "ModelUnavailable: model 'desk' was tried 3 times", "You said: away until"),
        ("loop", "max_steps_exceeded", "asked its model 20 times without coming to an answer", "Cup, blue"),
    ],
)
def test_what_passes_is_said_and_retry_goes_on_until_it_has_passed(
    inbox: Inbox, tmp_path: Path, says: str, code: str, reason: str, last: str
) -> None:
    session_id = inbox.api.create()
    gate = tmp_path / "go"
    inbox.api.send(session_id, f"{says} until {gate}: hello")
    assert inbox.api.wait(session_id)["error_code"] == code
    inbox.page.goto(f"{inbox.page.url.split('#')[0]}#/sessions/{session_id}")
    alert, button = inbox.page.get_by_role("alert"), inbox.page.get_by_role("button", name="Retry")
    expect(alert).to_contain_text(reason)
    gate.touch()
    button.click()
    expect(inbox.page.get_by_role("log")).to_contain_text(last)
    expect(inbox.page.get_by_role("status").filter(has_text="idle")).to_be_visible()
    expect(alert).to_have_count(0)
    expect(button).to_have_count(0)
