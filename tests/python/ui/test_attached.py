"""Images and files of a conversation: images are drawn, the rest is saved, and none of it is opened or fetched."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from playwright.sync_api import expect

from tests.python.ui.desk import call
from tests.python.ui.test_accessible import check
from tests.python.ui.test_hostile import PAYLOADS, nothing_ran

if TYPE_CHECKING:
    from tests.python.ui.conftest import Open
    from tests.python.ui.inbox import Inbox


def png(width: int, height: int) -> str:
    """A grey picture, base64."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = zlib.compress((b"\0" + b"\x99" * width) * height)
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    file = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
    return base64.b64encode(file).decode()


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def show(inbox: Inbox, state: list[dict[str, Any]]) -> None:
    session_id = inbox.api.create(state=state)
    inbox.page.goto(f"{inbox.page.url.split('#')[0]}#/sessions/{session_id}")


def test_an_image_is_drawn_and_a_file_can_be_saved(inbox: Inbox) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "chart", "arguments": "{}"}}
    report = {"media_type": "application/pdf", "data": encoded("%PDF-"), "name": "report.pdf"}
    far = {"media_type": "image/png", "url": "https://example.org/far.png", "name": "far.png"}
    chart = {"media_type": "image/png", "data": png(640, 100), "name": "sales.png"}
    state = [
        {"role": "user", "content": "What does it say?", "attachments": [report, far], "base64_image": png(9, 7)},
        {"role": "assistant", "tool_calls": [call]},
        {
            "role": "tool",
            "tool_call_id": "c1",
            "content": "[attachment 1: sales.png, image/png]",
            "attachments": [chart],
        },
    ]
    show(inbox, state)
    drawn = inbox.page.get_by_role("img", name="sales.png")
    expect(drawn).to_be_visible()
    assert drawn.evaluate("image => image.naturalWidth") == 640
    box = drawn.bounding_box()
    assert box is not None
    assert box["width"] <= 330  # so that a large one leaves room for what is said
    expect(inbox.page.get_by_role("img", name="An image")).to_have_js_property("naturalWidth", 9)
    # By its address alone it is told, as an address is no more than what somebody wrote.
    said = inbox.page.locator(".said.user")
    expect(said).to_contain_text("far.png image/png at https://example.org/far.png")
    with inbox.page.expect_download() as saving:
        said.get_by_role("link", name="report.pdf").click()
    assert saving.value.suggested_filename == "report.pdf"
    assert Path(saving.value.path()).read_bytes() == b"%PDF-"
    check(inbox)


KINDS = ("text/html", "image/svg+xml", "application/xhtml+xml", "application/pdf", "text/javascript")


def test_no_file_runs(open_inbox: Open) -> None:
    # What is no base64 is no address either, and Chromium says so.
    inbox = open_inbox(expected=("ERR_INVALID_URL",))
    elsewhere: list[str] = []
    ours = inbox.page.url.split("/ui")[0]
    inbox.page.on("request", lambda request: elsewhere.append(request.url))
    page = f"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'>{''.join(PAYLOADS)}</svg>"
    data = encoded(page)
    state: list[dict[str, Any]] = []
    for text in PAYLOADS:
        files = [{"media_type": kind, "data": data, "name": text} for kind in KINDS]
        # Of a type that is drawn, and none.
        drawn = {"media_type": "image/png", "data": data, "name": text}
        far = {"media_type": "image/png", "url": "https://evil.example/pixel.png", "name": text}
        state.append({"role": "user", "attachments": [*files, drawn, far]})
        state += [{"role": "user", "base64_image": image} for image in (text, f"data:text/html,{text}", f"data:{text}")]
    show(inbox, state)
    expect(inbox.page.locator(".said")).to_have_count(len(state))
    shown = inbox.page.locator("#app .attached img")
    expect(shown).to_have_count(4 * len(PAYLOADS))
    sources = shown.evaluate_all("(images) => images.map((image) => image.getAttribute('src'))")
    assert all(source.startswith("data:image/") for source in sources)
    links = inbox.page.locator("#app .attached a")
    expect(links).to_have_count(len(KINDS) * len(PAYLOADS))
    led = links.evaluate_all(
        "(links) => links.map((link) => [link.getAttribute('href'), link.hasAttribute('download')])"
    )
    assert led == [[f"data:application/octet-stream;base64,{data}", True]] * len(led)
    for place in range(len(KINDS)):
        with inbox.page.expect_download() as saving:
            links.nth(place).click()
        assert Path(saving.value.path()).read_text() == page
    # Of all else what holds everywhere.
    inbox.page.evaluate("document.querySelectorAll('#app .attached').forEach((list) => list.remove())")
    nothing_ran(inbox.page)
    assert [url for url in elsewhere if not url.startswith((ours, "data:"))] == []


def waiting(inbox: Inbox, files: list[dict[str, str]], then: int = 1, **message: Any) -> str:
    """A session whose turn has looked at files, `then` times, and waits for an approval."""
    plan = [*[[call("files_of", order=7, files=files)]] * then, [call("refund", order=7, cents=1, reason="r")]]
    session_id = inbox.api.create()
    assert inbox.api.send(session_id, json.dumps(plan), **message).status_code == 202
    assert inbox.api.wait(session_id)["status"] == "interrupted"
    return session_id


def test_who_decides_sees_the_files_of_the_message_and_of_the_results(inbox: Inbox) -> None:
    report = {"media_type": "application/pdf", "data": encoded("%PDF-"), "name": "report.pdf"}
    cup = {"media_type": "image/png", "data": png(90, 70), "name": "cup.png"}
    chart = {"media_type": "image/png", "data": png(640, 100), "name": "sales.png"}
    notes = {"media_type": "text/csv", "text": "a,b", "name": "notes.csv"}
    session_id = waiting(inbox, [chart, notes], attachments=[report, cup], base64_image=png(9, 7))
    inbox.show("refund")
    beside = inbox.request.get_by_role("region", name="Conversation")
    base = inbox.page.url.split("#")[0]
    for place in (beside, inbox.page.get_by_role("log")):
        for name, width in (("cup.png", 90), ("sales.png", 640), ("An image", 9)):
            expect(place.get_by_role("img", name=name)).to_have_js_property("naturalWidth", width)
        # What was said of them, and no base64.
        mark = "Files of 7:\n[attachment 1: sales.png, image/png]\n[attachment 2: notes.csv, text/csv]"
        expect(place.locator(".call > .result")).to_have_text(mark)
        for name, text in (("report.pdf", b"%PDF-"), ("notes.csv", b"a,b")):
            with inbox.page.expect_download() as saving:
                place.get_by_role("link", name=name).click()
            assert Path(saving.value.path()).read_bytes() == text
        check(inbox)
        inbox.page.goto(f"{base}#/sessions/{session_id}")
    inbox.page.goto(f"{base}#/sessions/{session_id}/journal")
    journal = inbox.page.get_by_role("region", name="Journal of the newest turn")
    expect(journal.get_by_role("img")).to_have_count(3)
    expect(journal.get_by_role("link", name="notes.csv")).to_be_visible()


def test_a_message_that_is_a_file_is_seen_however_much_the_turn_has_done_since(open_inbox: Open) -> None:
    inbox = open_inbox()
    cup = {"media_type": "image/png", "data": png(90, 70), "name": "cup.png"}
    waiting(inbox, [], then=9, attachments=[cup])
    inbox.show("refund")
    beside = inbox.request.get_by_role("region", name="Conversation")
    expect(beside.get_by_role("img", name="cup.png")).to_be_visible()
    expect(beside.locator(".said.user")).to_have_count(1)


def test_what_is_too_large_for_the_open_turn_is_named(open_inbox: Open) -> None:
    inbox = open_inbox()
    session_id = waiting(inbox, [{"media_type": "text/plain", "text": "x", "name": "a.txt"}])
    inbox.page.route(
        f"**/sessions/{session_id}/journal*",
        lambda route: route.fulfill(json=without_data((response := route.fetch()).json()), response=response),
    )
    inbox.show("refund")
    beside = inbox.request.get_by_role("region", name="Conversation")
    expect(beside.locator(".attached")).to_have_text("a.txt text/plain too large to be shown here")


def without_data(entries: list[Any]) -> list[Any]:
    """As the server leaves it out of a page that has no room for it."""
    for entry in entries:
        for file in entry.get("attachments", []):
            del file["data"]
            file["shortened"] = True
    return entries


def test_no_file_of_an_open_turn_runs(open_inbox: Open) -> None:
    inbox = open_inbox(expected=("ERR_INVALID_URL",))
    elsewhere: list[str] = []
    ours = inbox.page.url.split("/ui")[0]
    inbox.page.on("request", lambda request: elsewhere.append(request.url))
    page = f"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'>{''.join(PAYLOADS)}</svg>"
    kinds = (*KINDS, "image/png")
    files = [{"media_type": kind, "text": page, "name": text} for text in PAYLOADS[:5] for kind in kinds]
    sent = [{"media_type": kind, "data": encoded(page), "name": text} for text in PAYLOADS[5:9] for kind in kinds]
    far = {"media_type": "image/png", "url": "https://evil.example/pixel.png", "name": PAYLOADS[9]}
    session_id = waiting(inbox, files, attachments=[*sent, far], base64_image=f"data:text/html,{PAYLOADS[0]}")
    inbox.show("refund")
    base = inbox.page.url.split("#")[0]
    for tab in ("", f"{base}#/sessions/{session_id}", f"{base}#/sessions/{session_id}/journal"):
        if tab:
            inbox.page.goto(tab)
        # Five payloads of the result and four of the message, each as an image and as what is none; and the older
        # member.
        expect(inbox.page.locator("#app .attached img")).to_have_count(5 + 4 + 1)
        expect(inbox.page.locator("#app .attached a")).to_have_count(len(KINDS) * (5 + 4))
        led = inbox.page.locator("#app .attached a").evaluate_all(
            "(links) => links.map((link) => [link.getAttribute('href'), link.hasAttribute('download')])"
        )
        assert led == [[f"data:application/octet-stream;base64,{encoded(page)}", True]] * len(led)
        inbox.page.evaluate("document.querySelectorAll('#app .attached').forEach((list) => list.remove())")
        nothing_ran(inbox.page)
    assert [url for url in elsewhere if not url.startswith((ours, "data:"))] == []
