"""Files that a person attaches to a message: chosen, dropped or pasted, taken away again, and sent."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from playwright.sync_api import FileChooser, FilePayload, Locator, expect

from tests.python.ui.test_accessible import check
from tests.python.ui.test_attached import png
from tests.python.ui.test_hostile import PAYLOADS, nothing_ran

if TYPE_CHECKING:
    from tests.python.ui.conftest import Open
    from tests.python.ui.inbox import Inbox

ROOM = 785_664
"""Bytes of files that a server with the default `--max-body` has room for."""


def file(name: str, data: bytes = b"x", kind: str = "text/plain") -> FilePayload:
    return {"name": name, "mimeType": kind, "buffer": data}


CUP = file("cup.png", base64.b64decode(png(90, 70)), "image/png")
NOTES = file("notes.txt", b"two litres")


class Composer:
    """The place of the next message, in a session of its own."""

    def __init__(self, inbox: Inbox) -> None:
        self.inbox, self.page = inbox, inbox.page
        self.session_id = inbox.api.create()
        self.page.goto(f"{self.page.url.split('#')[0]}#/sessions/{self.session_id}")
        expect(self.page.get_by_text("Say something to begin.")).to_be_visible()

    @property
    def chosen(self) -> Locator:
        return self.page.get_by_role("list", name="Goes with the message").get_by_role("listitem")

    @property
    def problem(self) -> Locator:
        return self.page.locator(".composer").get_by_role("alert")

    @property
    def attach(self) -> Locator:
        return self.page.get_by_role("button", name="Attach files")

    @property
    def message(self) -> Locator:
        return self.page.get_by_role("textbox", name="Message")

    @property
    def send(self) -> Locator:
        return self.page.get_by_role("button", name="Send", exact=True)

    def choose(self, *files: FilePayload) -> None:
        with self.page.expect_file_chooser() as choosing:
            self.attach.click()
        choosing.value.set_files(files)

    def transfer(self, *files: FilePayload, text: str | None = None) -> Any:
        """What a browser carries when files are dragged, or pasted."""
        given = [[one["name"], one["mimeType"], list(one["buffer"])] for one in files]
        return self.page.evaluate_handle(
            """([files, text]) => {
                const data = new DataTransfer();
                for (const [name, type, bytes] of files)
                    data.items.add(new File([new Uint8Array(bytes)], name, { type }));
                if (text !== null) data.setData("text/plain", text);
                return data;
            }""",
            [given, text],
        )

    def drop(self, *files: FilePayload) -> None:
        carried = {"dataTransfer": self.transfer(*files)}
        self.page.get_by_role("group", name="Conversation").dispatch_event("dragover", carried)
        expect(self.page.get_by_text("Drop the files to attach them.")).to_be_visible()
        self.page.get_by_role("group", name="Conversation").dispatch_event("drop", carried)
        expect(self.page.get_by_text("Drop the files to attach them.")).to_have_count(0)

    def paste(self, *files: FilePayload, text: str | None = None) -> bool:
        """Whether that was taken, and the browser has nothing more to do."""
        carried = self.transfer(*files, text=text)
        taken: bool = self.message.evaluate(
            """(area, data) => !area.dispatchEvent(
                new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }))""",
            carried,
        )
        return taken

    def sent(self) -> list[dict[str, Any]]:
        """What the server has of the messages of people, once the turn of what was sent is over."""
        expect(self.chosen).to_have_count(0)
        assert self.inbox.api.wait(self.session_id)["status"] == "idle"
        messages = self.inbox.api.get(f"/sessions/{self.session_id}/messages").json()
        return [message for message in messages if message["role"] == "user"]


def attachment(one: FilePayload) -> dict[str, str]:
    return {
        "media_type": one["mimeType"],
        "data": base64.b64encode(one["buffer"]).decode(),
        "name": one["name"],
    }


def test_files_are_chosen_one_is_taken_away_and_the_others_go_with_the_message(inbox: Inbox) -> None:
    composer = Composer(inbox)
    composer.choose(CUP, NOTES, file("wrong.txt"))
    expect(composer.chosen).to_have_text(["cup.png 105 bytes✕", "notes.txt 10 bytes✕", "wrong.txt 1 byte✕"])
    expect(composer.chosen.first.locator("img")).to_have_js_property("naturalWidth", 90)
    expect(inbox.page.locator("[aria-live=polite]")).to_have_text("Attached wrong.txt")
    composer.message.fill("Whose is it?")
    check(inbox)
    composer.page.get_by_role("button", name="Remove wrong.txt").click()
    expect(composer.chosen).to_have_count(2)
    expect(inbox.page.locator("[aria-live=polite]")).to_have_text("Removed wrong.txt")
    # Where the focus is after its button has gone.
    expect(composer.attach).to_be_focused()
    assert inbox.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    composer.send.click()
    expect(inbox.page.get_by_role("log")).to_contain_text("You said: Whose is it?")
    expect(inbox.page.get_by_role("log").get_by_role("img", name="cup.png")).to_have_count(1)
    expect(inbox.page.get_by_role("log").get_by_role("link", name="notes.txt")).to_have_count(1)
    expect(composer.chosen).to_have_count(0)
    expect(composer.message).to_have_value("")
    assert composer.sent() == [
        {"role": "user", "content": "Whose is it?", "attachments": [attachment(CUP), attachment(NOTES)]}
    ]


def test_a_file_alone_is_a_message_and_everything_is_done_by_keys(open_inbox: Open) -> None:
    inbox = open_inbox()
    composer = Composer(inbox)
    opened: list[FileChooser] = []
    inbox.page.on("filechooser", lambda chooser: opened.append(chooser))
    expect(composer.send).to_be_disabled()
    composer.message.focus()
    inbox.press("Tab")
    expect(composer.attach).to_be_focused()
    inbox.press("Enter")
    inbox.until(lambda: opened)
    opened[0].set_files([NOTES, CUP])
    expect(composer.chosen).to_have_count(2)
    composer.message.focus()
    inbox.press("Shift+Tab")
    expect(inbox.page.get_by_role("button", name="Remove cup.png")).to_be_focused()
    inbox.press("Enter")
    expect(composer.chosen).to_have_text(["notes.txt 10 bytes✕"])
    composer.message.press("Enter")
    expect(inbox.page.get_by_role("log").get_by_role("link", name="notes.txt")).to_have_count(1)
    assert composer.sent() == [{"role": "user", "attachments": [attachment(NOTES)]}]


def test_files_are_dropped_anywhere_in_a_conversation_and_pasted_into_the_message(open_inbox: Open) -> None:
    inbox = open_inbox()
    composer = Composer(inbox)
    composer.drop(NOTES)
    expect(composer.chosen).to_have_text(["notes.txt 10 bytes✕"])
    assert composer.paste(file("pasted.csv", b"a,b", "text/csv"))
    expect(composer.chosen).to_have_text(["notes.txt 10 bytes✕", "pasted.csv 3 bytes✕"])
    # Of a table that was copied, people want the text and not a picture of it.
    assert not composer.paste(file("table.png", b"x", "image/png"), text="a\tb")
    # What is dragged and is no file is the browser's own, as a word that is moved.
    dragged = composer.page.evaluate_handle(
        "() => { const data = new DataTransfer(); data.setData('text/plain', 'a'); return data; }"
    )
    composer.message.dispatch_event("dragover", {"dataTransfer": dragged})
    expect(inbox.page.get_by_text("Drop the files to attach them.")).to_have_count(0)
    expect(composer.chosen).to_have_count(2)


def test_a_file_that_browsers_know_no_type_of_is_text_where_it_can_be(open_inbox: Open) -> None:
    composer = Composer(open_inbox())
    composer.drop(file("main.unknown", "größer".encode(), ""), file("a.unknown", b"\xff\xfe\x00\x80", ""))
    expect(composer.chosen).to_have_count(2)
    composer.send.click()
    [message] = composer.sent()
    types = [one["media_type"] for one in message["attachments"]]
    assert types == ["text/plain", "application/octet-stream"]


def test_a_file_that_is_too_large_is_refused_before_it_is_sent(inbox: Inbox) -> None:
    composer = Composer(inbox)
    composer.choose(file("large.bin", b"x" * (ROOM + 1)), NOTES)
    expect(composer.problem).to_have_text(
        "large.bin has 786 kB and is not attached: a message to this server has room for 786 kB of files. "
        "The server\u2019s --max-body sets how much it takes."
    )
    expect(composer.chosen).to_have_text(["notes.txt 10 bytes✕"])
    check(inbox)
    # One that fits, and one that does not fit beside it.
    composer.choose(file("half.bin", b"x" * 500_000), file("rest.bin", b"x" * 300_000))
    expect(composer.problem).to_contain_text("rest.bin has 300 kB and is not attached")
    expect(composer.problem).to_contain_text("of which 501 kB are taken")
    expect(composer.chosen).to_have_count(2)
    composer.page.get_by_role("button", name="Remove half.bin").click()
    expect(composer.problem).to_have_count(0)
    composer.choose(file("whole.bin", b"x" * (ROOM - 500)))
    expect(composer.chosen).to_have_count(2)
    # And so are words that leave no room for what is attached.
    composer.message.fill("long " * 400)
    composer.send.click()
    expect(composer.problem).to_contain_text("The message is too large: 1,0")
    expect(composer.problem).to_contain_text("bytes with its files, of 1,048,576 at most.")
    composer.message.fill("short")
    composer.send.click()
    expect(composer.chosen).to_have_count(0)
    assert [len(one["data"]) for one in composer.sent()[0]["attachments"]] == [16, (ROOM - 500 + 2) // 3 * 4]


def test_what_is_empty_or_cannot_be_read_is_not_attached(open_inbox: Open) -> None:
    composer = Composer(open_inbox())
    composer.page.evaluate("void (File.prototype.arrayBuffer = () => Promise.reject(new Error('It is gone.')))")
    composer.drop(file("empty.txt", b""), file("folder", b"x", ""), NOTES)
    expect(composer.problem.locator("p")).to_have_text(
        [
            "empty.txt is empty, and not attached.",
            "folder cannot be read, and is not attached; folders cannot be. It is gone.",
        ]
    )
    expect(composer.chosen).to_have_text(["notes.txt 10 bytes✕"])


def test_a_message_that_does_not_arrive_keeps_its_files(open_inbox: Open) -> None:
    inbox = open_inbox(expected=("413",))
    composer = Composer(inbox)
    composer.choose(NOTES)
    composer.message.fill("here")
    expect(composer.chosen).to_have_count(1)
    inbox.page.route("**/messages", lambda route: route.fulfill(status=413, body="<html>Too large</html>"))
    composer.send.click()
    expect(composer.problem).to_contain_text("The message is too large for the server, or for a proxy before it")
    expect(composer.chosen).to_have_count(1)
    expect(composer.message).to_have_value("here")
    expect(inbox.page.get_by_role("log").get_by_role("listitem")).to_have_count(0)
    inbox.page.unroute("**/messages")
    composer.send.click()
    expect(composer.problem).to_have_count(0)
    assert composer.sent() == [{"role": "user", "content": "here", "attachments": [attachment(NOTES)]}]


def test_nothing_of_a_file_runs_before_it_is_sent(open_inbox: Open) -> None:
    inbox = open_inbox()
    composer = Composer(inbox)
    page = f"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'>{''.join(PAYLOADS)}</svg>".encode()
    composer.choose(*(file(name.replace("/", "_"), page, "image/svg+xml") for name in PAYLOADS))
    expect(composer.chosen).to_have_count(len(PAYLOADS))
    nothing_ran(inbox.page)
