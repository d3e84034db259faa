"""The site: whole, and without a network. `make site` builds it."""

from __future__ import annotations

import functools
import http.server
import importlib
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.python.docs.blocks import ROOT
from tests.python.ui.browser import launch
from tools import reference, site

PATIENCE = 60_000
"""Milliseconds that a browser on a busy machine may take."""


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args: object) -> None:
        """Say nothing."""

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """The site's own page for what is not there, as hosts of pages have it."""
        page = next((path for path in Path(self.directory).rglob("404.html")), None)
        if code != 404 or page is None:
            super().send_error(code, message, explain)
            return
        content = page.read_bytes()
        self.send_response(404)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)


@pytest.fixture
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        launched = launch(playwright)
        yield launched
        launched.close()


def served(folder: Path) -> http.server.ThreadingHTTPServer:
    handler = functools.partial(QuietHandler, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


@pytest.mark.slow
def test_it_is_built_without_a_warning_and_read_without_a_network(tmp_path: Path, browser: Browser) -> None:
    built = tmp_path / "site"
    assert site.build(tmp_path / "work", built) == []
    server = served(built)
    try:
        for width, height in ((1280, 800), (390, 844)):
            page = browser.new_page(viewport={"width": width, "height": height})
            read_a_little(page, f"http://127.0.0.1:{server.server_port}")
            page.close()
        copy_a_little(browser, f"http://127.0.0.1:{server.server_port}")
    finally:
        server.shutdown()
        server.server_close()


def copy_a_little(browser: Browser, address: str) -> None:
    """What is copied of a terminal can be pasted into one: without its prompts, and what it answered."""
    context = browser.new_context(permissions=["clipboard-read", "clipboard-write"])
    page = context.new_page()
    page.goto(f"{address}/tutorial/1-first-agent.html")
    shown = page.locator(".highlight", has_text="is served on").first
    shown.hover()
    shown.locator("button[data-clipboard-target], .md-clipboard, .md-code__button").first.click()
    page.wait_for_function("navigator.clipboard.readText().then((text) => text !== '')", timeout=PATIENCE)
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith("hitl serve "), copied
    assert "is served on" not in copied
    context.close()


@pytest.mark.parametrize("below", ["", "hitl/v1/"])
def test_the_page_for_what_is_not_there_leads_to_the_start_below_any_path(
    tmp_path: Path, browser: Browser, below: str
) -> None:
    folder = tmp_path / below
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in (("404.html", site.NOT_THERE), ("search.json", "{}"), ("index.html", "<h1>The start</h1>")):
        (folder / name).write_text(text, encoding="utf-8")
    server = served(tmp_path)
    try:
        page = browser.new_page()
        page.set_default_timeout(PATIENCE)
        start = f"http://127.0.0.1:{server.server_port}/{below}"
        page.goto(f"{start}tutorial/9-gone.html")
        page.get_by_role("link", name="The start of these pages").click()
        expect(page.get_by_role("heading", name="The start")).to_be_visible()
        assert page.url == f"{start}index.html"
    finally:
        server.shutdown()
        server.server_close()


def read_a_little(page: Page, address: str) -> None:
    page.set_default_timeout(PATIENCE)
    elsewhere: list[str] = []
    broken: list[str] = []
    page.on("request", lambda request: None if request.url.startswith((address, "data:", "blob:")) else
            elsewhere.append(request.url))  # fmt: skip
    page.on("pageerror", lambda error: broken.append(str(error)))
    page.on("response", lambda response: broken.append(response.url) if response.status >= 400 else None)
    for name in ("index", "durability", "reference/python/hitl.client"):
        page.goto(f"{address}/{name}.html")
        # What is wide scrolls by itself: the page does not.
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    # Open once its script is there; the dialog is a part of the page with a style of its own.
    expect(page.locator("dialog")).to_be_attached(timeout=PATIENCE)
    page.locator("[aria-label=Search]:visible, .md-search__button:visible, label[for=__search]:visible").first.click()
    page.locator("dialog input").fill("idempotency key")
    expect(page.locator("dialog a").first).to_contain_text("idempotency_key", timeout=PATIENCE)
    assert elsewhere == []
    assert broken == []


def test_every_public_name_is_in_the_reference() -> None:
    pages = reference.pages()
    for package in reference.PACKAGES:
        headings = set(re.findall(r"^## (\w+)$", pages[f"python/{package}"], re.MULTILINE))
        assert headings == set(importlib.import_module(package).__all__) - {"__version__"}
    client = pages["python/hitl.client"]
    assert "### Client.approve" in client
    assert "    message: Message,\n    timeout: float | None = None,\n    *,\n    webhook: " in client
    assert "## hitl interrupts approve" in pages["command-line"]


def test_what_is_wrong_is_found(tmp_path: Path) -> None:
    (tmp_path / "assets").mkdir()
    (tmp_path / "other.html").write_text('<h1 id="there">There</h1>', encoding="utf-8")
    (tmp_path / "index.html").write_text(
        '<script src="https://cdn.example/x.js"></script><link href="//fonts.example/f.css">'
        '<img src="missing.png"><a href="other.html#there"></a><a href="other.html#gone"></a><a href="#gone"></a>'
        '<a href="https://elsewhere.example">may be linked</a><script>"<a href=\'none\'>"</script>'
        "<p>Some words\n- <b>and more</b></p>",
        encoding="utf-8",
    )
    (tmp_path / "assets/x.js").write_text('load("https://cdn.example/y")', encoding="utf-8")
    (tmp_path / "assets/x.css").write_text("@font-face { src: url(//fonts.example/f) }", encoding="utf-8")
    assert list(site.wrong_with(tmp_path)) == [
        "index.html: <script src> fetches https://cdn.example/x.js",
        "index.html: <link href> fetches //fonts.example/f.css",
        "index.html: missing.png leads to no file",
        "index.html: other.html#gone leads to no anchor",
        "index.html: #gone leads to no anchor",
        "index.html: no item of a list, for want of an empty line before it: '- <b>and more</b>'",
        "assets/x.js names https://cdn.example",
        "assets/x.css fetches //fonts.example/f",
    ]
    assert list(site.outer_links(tmp_path)) == ["https://elsewhere.example"]


def test_links_lead_to_pages_of_the_site() -> None:
    linked: set[str] = set()
    text = (
        "[durability.md](durability.md#what-is-a-step), [`pay`](../examples/bank.py), [the words](glossary.md)\n"
        "![A list](images/inbox-list-desktop.png) [home](../README.md) [out](https://x.example) `[code](no.md)`\n"
    )
    titles = {"docs/durability.md": "Durability", "docs/glossary.md": "Glossary"}
    assert site.with_links(text, "docs/runs.md", titles, linked) == (
        "[Durability](durability.md#what-is-a-step), [`pay`](source/examples/bank.py.md), [the words](glossary.md)\n"
        "![A list](images/inbox-list-desktop.png) [home](index.md) [out](https://x.example) `[code](no.md)`\n"
    )
    assert linked == {"examples/bank.py"}
    with pytest.raises(site.SiteError, match=r"docs/runs\.md links to gone\.md, which is no file"):
        site.with_links("[x](gone.md)", "docs/runs.md", titles, linked)


def test_a_page_that_is_not_in_the_navigation_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = [page for page in site.navigation() if page != "runs.md"]
    monkeypatch.setattr(site, "navigation", lambda: [*listed, "gone.md"])
    made = {page.removeprefix("reference/").removesuffix(".md"): "" for page in listed if page.startswith("reference/")}
    monkeypatch.setattr(site.reference, "pages", lambda: made)
    with pytest.raises(site.SiteError, match=r"not in the navigation: \['runs.md'\]; no page: \['gone.md'\]"):
        site.stage(tmp_path)


def test_what_is_built_is_no_part_of_the_repository() -> None:
    assert "/target/" in (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()
    assert not (ROOT / "docs" / "reference").exists()
